package saga

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

// gate stands before a server and knows which case each request belongs to: cases run
// side by side, and what befalls one is not felt by the others.
type gate struct {
	*httptest.Server
	proxy    *httputil.ReverseProxy
	upstream http.RoundTripper
	target   string // the steps' sink: grants or objects

	mu    sync.Mutex
	tails map[string]*trail // by the name of a case's object
	runs  map[string]*trail // by the id of a saga's run: what gives up a run names no object
}

// trail is what a gate saw of one case, and what it is to do to it.
type trail struct {
	name string
	plan func(*request) verdict // nil: carry all

	mu    sync.Mutex
	seen  map[string]int // requests so far, by kind
	runs  []string
	under sync.WaitGroup // requests that are carried though nobody waits for them
}

// request is one that is about a case.
type request struct {
	kind string // read, write or remove
	nth  int    // of its kind in this case, from 1
}

// verdict is what becomes of a request.
type verdict struct {
	refuse bool          // the server never sees it, and the client's stream is reset
	lose   bool          // the server answers, and the client's stream is reset
	late   time.Duration // the client's stream is reset, and then the server gets it so much later
	status int           // the gate answers so, in place of the server
	before func()        // done before the server gets it
	after  func()        // done when the server has answered, before the client gets it
}

func newGate(target string, to *url.URL, tr http.RoundTripper) *gate {
	g := &gate{target: target, upstream: tr, tails: map[string]*trail{}, runs: map[string]*trail{}}
	g.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: tr, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	g.Server = httptest.NewUnstartedServer(g)
	return g
}

// watch tells the gate of a case, which has an object of that name.
func (g *gate) watch(name string, plan func(*request) verdict) *trail {
	t := &trail{name: name, plan: plan, seen: map[string]int{}}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tails[name] = t
	return t
}

// count is how many requests of a kind there were.
func (t *trail) count(kind string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen[kind]
}

func (g *gate) forget(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, run := range g.tails[name].runs {
		delete(g.runs, run)
	}
	delete(g.tails, name)
}

// Names of objects, and ids of runs in SpiceDB's wire format.
var (
	objectName = regexp.MustCompile(`case-[a-z0-9]+-[0-9]+`)
	runID      = regexp.MustCompile(`workflow\x12\x20([0-9a-f]{32})`)
)

// of finds the case that a request is about.
func (g *gate) of(r *http.Request, body []byte) *trail {
	g.mu.Lock()
	defer g.mu.Unlock()
	var t *trail
	if name := objectName.FindString(r.URL.Path); name != "" {
		t = g.tails[name]
	} else if name := objectName.Find(body); name != nil {
		t = g.tails[string(name)]
	}
	run := runID.FindSubmatch(body)
	switch {
	case run == nil:
	case t == nil:
		t = g.runs[string(run[1])]
	case g.runs[string(run[1])] == nil:
		g.runs[string(run[1])] = t
		t.runs = append(t.runs, string(run[1]))
	}
	return t
}

// kindOf says what a request does.
func kindOf(r *http.Request) string {
	switch {
	case strings.HasSuffix(r.URL.Path, "/WriteRelationships"), r.Method == http.MethodPatch:
		return "write"
	case strings.HasSuffix(r.URL.Path, "/DeleteRelationships"), r.Method == http.MethodDelete:
		return "remove"
	}
	return "read"
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var v verdict
	t := g.of(r, body)
	if t != nil {
		q := request{kind: kindOf(r)}
		t.mu.Lock()
		t.seen[q.kind]++
		q.nth = t.seen[q.kind]
		t.mu.Unlock()
		if t.plan != nil {
			v = t.plan(&q)
		}
	}
	if v.before != nil {
		v.before()
	}
	switch {
	case v.refuse:
		panic(http.ErrAbortHandler)
	case v.status != 0:
		http.Error(w, "the gate's answer", v.status)
	case v.late > 0:
		late := r.Clone(context.WithoutCancel(r.Context()))
		late.Body = io.NopCloser(bytes.NewReader(body))
		t.under.Go(func() {
			defer func() { _ = recover() }() // of an answer that nobody reads
			time.Sleep(v.late)               // the point of it: the request is on its way for so long
			g.proxy.ServeHTTP(httptest.NewRecorder(), late)
		})
		panic(http.ErrAbortHandler)
	case v.lose, v.after != nil:
		whole := r.WithContext(context.WithoutCancel(r.Context()))
		answer := httptest.NewRecorder()
		g.proxy.ServeHTTP(answer, whole)
		if v.after != nil {
			v.after()
		}
		panic(http.ErrAbortHandler)
	default:
		g.proxy.ServeHTTP(w, r)
	}
}

// openGates puts a gate before SpiceDB and one before the API server.
func openGates(spicedb, kube string, kubeClient *http.Client) (grants, objects *gate, err error) {
	cleartext := new(http.Protocols)
	cleartext.SetUnencryptedHTTP2(true)
	grants = newGate("grants", &url.URL{Scheme: "http", Host: spicedb}, &http.Transport{Protocols: cleartext})
	grants.Config.Protocols = cleartext
	grants.Start()
	to, err := url.Parse(kube)
	if err != nil {
		return nil, nil, err
	}
	objects = newGate("objects", to, kubeClient.Transport)
	objects.EnableHTTP2 = true
	objects.TLS = &tls.Config{}
	objects.StartTLS()
	return grants, objects, nil
}
