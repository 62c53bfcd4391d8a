package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/internal/relay"
	"github.com/pawlsync/pawl/internal/source"
)

// receiver is a Relay that answers with what it was asked, or an error.
type receiver struct{ err error }

func (r receiver) Receive(_ context.Context, request []byte) ([]byte, error) {
	return append([]byte("items "), request...), r.err
}

func (r receiver) Look(_ context.Context, request []byte) ([]byte, error) {
	return append([]byte("looks "), request...), r.err
}

func (r receiver) Compare(_ context.Context, request []byte) ([]byte, error) {
	return append([]byte("comparison "), request...), r.err
}

func TestARelaysRequestsAreHandedOnAsTheyAre(t *testing.T) {
	_, _, hs := start(t, Options{Relay: receiver{}})
	for path, want := range map[string]string{"/v1/relay": "items \x00\xff", "/v1/relay/look": "looks \x00\xff", "/v1/relay/compare": "comparison \x00\xff"} {
		res, err := http.Post(hs.URL+path, relayType, strings.NewReader("\x00\xff"))
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, _ := res.Body.Read(b)
		res.Body.Close()
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != relayType || string(b[:n]) != want {
			t.Errorf("%s: %d %s %q", path, res.StatusCode, res.Header.Get("Content-Type"), b[:n])
		}
	}
}

func TestWhyARelayIsRefusedIsSaidInPlainWords(t *testing.T) {
	for name, c := range map[string]struct {
		relay  Relay
		body   string
		status int
		code   string
		words  string
	}{
		"no source of kind pawl": {nil, "x", 404, "not-found", "sources.NAME.pawl.senders"},
		"undeclared":             {receiver{fmt.Errorf("%w: %q", source.ErrUndeclared, "edge-9")}, "x", 403, "undeclared-sender", "edge-9"},
		"malformed":              {receiver{relay.ErrMalformed}, "x", 400, "bad-request", "versions"},
		"too large":              {receiver{}, strings.Repeat("x", 2000), 413, "too-large", "batch_max"},
		"closed":                 {receiver{engine.ErrClosed}, "x", 503, "closed", "try again"},
		"the store":              {receiver{errors.New("disk")}, "x", 500, "internal", "disk"},
	} {
		_, _, hs := start(t, Options{Relay: c.relay, RequestMaxBytes: 1000})
		for _, path := range []string{"/v1/relay", "/v1/relay/look", "/v1/relay/compare"} {
			res, body := ask(t, "POST", hs.URL+path, c.body)
			if res.StatusCode != c.status || !strings.Contains(body, `"`+c.code+`"`) || !strings.Contains(body, c.words) {
				t.Errorf("%s: %s: %d %s", name, path, res.StatusCode, body)
			}
		}
	}
}
