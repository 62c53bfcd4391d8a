package relay

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// link is the way to a daemon, through a proxy that can be told to misbehave.
type link struct {
	*toxiproxy.Proxy
	t *testing.T
}

// newLink makes a link that works.
func newLink(t *testing.T, to *pawl) *link {
	t.Helper()
	logger := zerolog.Nop()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), logger)
	l := &link{toxiproxy.NewProxy(server, t.Name(), "127.0.0.1:0", to.address), t}
	must(t, l.Start())
	t.Cleanup(l.Stop)
	return l
}

// url is where the link begins; it stays what it is.
func (l *link) url() string { return "http://" + l.Listen }

// toxic is what befalls the bytes of one direction: "upstream" to the daemon, or
// "downstream" from it.
type toxic struct {
	Type       string         `json:"type"`
	Stream     string         `json:"stream"`
	Attributes map[string]int `json:"attributes"`
}

// fault is what a link does instead of carrying everything.
type fault struct {
	name   string
	down   bool // nobody listens
	toxics []toxic
}

// faults are what links do in turn.
var faults = []fault{
	{name: "passes everything"},
	{name: "refuses connections", down: true},
	{name: "loses requests", toxics: []toxic{{"reset_peer", "upstream", nil}}},
	{name: "loses answers", toxics: []toxic{{"reset_peer", "downstream", nil}}},
	{name: "cuts requests off", toxics: []toxic{{"limit_data", "upstream", map[string]int{"bytes": 700}}}},
	{name: "cuts answers off", toxics: []toxic{{"limit_data", "downstream", map[string]int{"bytes": 150}}}},
	{name: "is slow", toxics: []toxic{{"latency", "downstream", map[string]int{"latency": 50, "jitter": 40}}}},
	{name: "chops", toxics: []toxic{{"slicer", "upstream", map[string]int{"average_size": 64, "size_variation": 32, "delay": 100}}, {"slicer", "downstream", map[string]int{"average_size": 16, "size_variation": 8}}}},
}

// befall makes the link do what f says, from now on, to open connections too.
func (l *link) befall(f fault) {
	l.t.Helper()
	if f.down {
		l.Stop()
		return
	}
	l.Toxics.ResetToxics(context.Background())
	for _, x := range f.toxics {
		text, err := json.Marshal(x)
		must(l.t, err)
		_, err = l.Toxics.AddToxicJson(strings.NewReader(string(text)))
		must(l.t, err)
	}
	if err := l.Start(); err != nil && err != toxiproxy.ErrProxyAlreadyStarted {
		l.t.Fatal(err)
	}
}

// mend makes the link carry everything.
func (l *link) mend() { l.befall(fault{}) }
