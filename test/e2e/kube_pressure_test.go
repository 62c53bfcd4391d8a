package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/kube"
)

// closedLevel is a priority level with room for one request at a time, closedFlow
// sends there what the user "limited" does to ConfigMaps of the namespace
// "pressure", and occupier makes one such request last: the API server asks two
// webhooks about it, of which each may take half a minute.
const (
	flowControl = "/apis/flowcontrol.apiserver.k8s.io/v1"
	closedLevel = `{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"PriorityLevelConfiguration","metadata":{"name":"closed"},
		"spec":{"type":"Limited","limited":{"nominalConcurrencyShares":0,"lendablePercent":0,"borrowingLimitPercent":0,"limitResponse":{"type":"Reject"}}}}`
	closedFlow = `{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","metadata":{"name":"closed"},
		"spec":{"matchingPrecedence":10,"priorityLevelConfiguration":{"name":"closed"},"rules":[{
		"subjects":[{"kind":"User","user":{"name":"limited"}}],
		"resourceRules":[{"verbs":["*"],"apiGroups":[""],"resources":["configmaps"],"namespaces":["pressure"]}]}]}}`
	mutatingHooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
	occupier      = `{"name":%q,"failurePolicy":"Ignore","sideEffects":"None","admissionReviewVersions":["v1"],
		"timeoutSeconds":30,"clientConfig":{"url":%q},"matchConditions":[{"name":"occupant","expression":"object.metadata.name == 'occupant'"}],
		"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"pressure"}},
		"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]}`
)

// occupy takes up the room of the priority level, until it is freed.
func (c *cluster) occupy(t *testing.T, limited http.RoundTripper) (free func()) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // who connects hears nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	url := "https://" + silent.Addr().String()
	c.create(t, mutatingHooks, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{"name":"occupier"},
		"webhooks":[`+fmt.Sprintf(occupier, "one.example.com", url)+`,`+fmt.Sprintf(occupier, "two.example.com", url)+`]}`)
	c.create(t, flowControl+"/prioritylevelconfigurations", closedLevel)
	flow := c.create(t, flowControl+"/flowschemas", closedFlow)
	send := func(ctx context.Context, method, path, body string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, method, c.URL+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := limited.RoundTrip(req)
		if err == nil {
			res.Body.Close()
		}
		return res, err
	}
	look := func() *http.Response {
		res, err := send(t.Context(), http.MethodGet, configMapPath("pressure", "none"), "")
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	eventually(t, "the priority level is in force", func() bool {
		return look().Header.Get("X-Kubernetes-PF-FlowSchema-UID") == flow.at("metadata", "uid")
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil { // the webhooks may not be in force yet
			_, _ = send(ctx, http.MethodPost, "/api/v1/namespaces/pressure/configmaps?dryRun=All", configMap("pressure", "occupant", `{}`))
		}
	}()
	eventually(t, "the server has no room", func() bool { return look().StatusCode == http.StatusTooManyRequests })
	return func() {
		cancel()
		<-ended
		c.remove(t, flowControl+"/flowschemas/closed")
		c.remove(t, flowControl+"/prioritylevelconfigurations/closed")
		c.remove(t, mutatingHooks+"/occupier")
	}
}

// pressure is the API server's priority and fairness: while it has no room for us,
// the sink pauses for as long as each answer says, and nothing is charged or lost.
func (c *cluster) pressure(t *testing.T) {
	c.namespace(t, "pressure")
	c.grant(t, "pressure", `{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"limited"}`, "limited")
	k, err := kube.Open(kube.Options{Kubeconfig: c.Kubeconfig, Context: "limited"})
	if err != nil {
		t.Fatal(err)
	}
	p := &patience429{t: t, next: k}
	// One call at a time: one that is under way already may overlap with another's pause.
	r := start(t, c.connectOver(t, k.BaseURL(), p, `{}`), engine.SinkOptions{MaxInFlight: 1})
	const n = 30
	key := func(i int) string { return fmt.Sprintf("v1/ConfigMap/pressure/c%d", i) }
	put := func(i int, v string) uint64 {
		return r.put(t, key(i), configMap("pressure", fmt.Sprintf("c%d", i), `{"v":"`+v+`"}`))
	}
	if res := r.settle(t, key(0), put(0, "open")); !res.Done {
		t.Fatalf("%+v", res)
	}

	free := c.occupy(t, k)
	generations := make([]uint64, n)
	for i := range n {
		put(i, "closed")
		generations[i] = put(i, "newest")
	}
	eventually(t, "the server sent us away four times", func() bool { return p.count() >= 4 })
	eventually(t, "the sink pauses", func() bool { return !r.Sinks()[0].PausedUntil.IsZero() })
	if got := c.versions(t, "pressure"); len(got) != 1 {
		t.Errorf("%d objects, while nothing is let through", len(got))
	}
	for i := range n {
		if st := r.status(t, key(i)); st.Attempts != 0 || st.Phase != record.Pending {
			t.Errorf("%s is %s after %d attempts: %s", key(i), st.Phase, st.Attempts, st.Message)
		}
	}

	free()
	for i, g := range generations {
		if res := r.settle(t, key(i), g); !res.Done {
			t.Fatalf("%s: %+v", key(i), res)
		}
		if v := c.get(t, configMapPath("pressure", fmt.Sprintf("c%d", i))).at("data", "v"); v != "newest" {
			t.Errorf("c%d holds %v", i, v)
		}
	}
}

// patience429 holds who calls to what answers 429 say of when to come back.
type patience429 struct {
	t    *testing.T
	next http.RoundTripper

	mu     sync.Mutex
	seen   int
	closed time.Time // until when nothing may be asked
}

func (p *patience429) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

func (p *patience429) RoundTrip(q *http.Request) (*http.Response, error) {
	p.mu.Lock()
	if early := time.Until(p.closed); early > 0 && strings.Contains(q.URL.Path, "/namespaces/pressure/") {
		p.t.Errorf("%s %s came %v too early", q.Method, q.URL.Path, early)
	}
	p.mu.Unlock()
	res, err := p.next.RoundTrip(q)
	if err != nil || res.StatusCode != http.StatusTooManyRequests {
		return res, err
	}
	seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		p.t.Errorf("the API server answered 429 with Retry-After %q", res.Header.Get("Retry-After"))
	}
	p.mu.Lock()
	p.seen++
	p.closed = time.Now().Add(time.Duration(seconds) * time.Second)
	p.mu.Unlock()
	return res, nil
}
