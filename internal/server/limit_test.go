package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// limited is a server with limits, a clock that stands, and what was throttled.
type limited struct {
	*testing.T
	*Server
	fake  *fake
	url   string
	clock struct {
		sync.Mutex
		time.Time
	}
	throttled []string
	who       [3][]string // headers of the tokens a and b, and of one that is none
}

func startLimited(t *testing.T, limits Limits) *limited {
	t.Helper()
	k := &scopeKit{T: t, file: filepath.Join(t.TempDir(), "tokens")}
	l := &limited{T: t}
	l.who = [3][]string{k.token("a", access.TokenGrant{Scope: access.Admin}), k.token("b", access.TokenGrant{Scope: access.Admin}), {"Authorization", "Bearer x"}}
	l.clock.Time = time.Unix(1_700_000_000, 0)
	var hs *httptest.Server
	l.Server, l.fake, hs = start(t, Options{
		Authenticators: tokensOf(t, k.file), Limits: limits, Now: l.now,
		Throttled: func(kind string, limit access.Limit) {
			l.clock.Lock()
			defer l.clock.Unlock()
			l.throttled = append(l.throttled, kind+" "+string(limit))
		},
	})
	l.url = hs.URL
	return l
}

func (l *limited) now() time.Time {
	l.clock.Lock()
	defer l.clock.Unlock()
	return l.clock.Time
}

func (l *limited) passes(d time.Duration) {
	l.clock.Lock()
	defer l.clock.Unlock()
	l.clock.Time = l.clock.Add(d)
}

// gets asks for a path, wants that status, and returns the problem, if it is one.
func (l *limited) gets(path string, who []string, status int) (p api.Problem) {
	l.Helper()
	response, body := ask(l.T, "GET", l.url+path, "", who...)
	if response.StatusCode != status {
		l.Fatalf("%s %v: %s %s, want %d", path, who, response.Status, body, status)
	}
	if status == http.StatusTooManyRequests {
		p = problemOf(l.T, response, body)
		if got := response.Header.Get("Retry-After"); p.Code != api.CodeTooManyRequests || got != fmt.Sprint(p.RetryAfter) || p.RetryAfter < 1 {
			l.Errorf("Retry-After %q, body %s", got, body)
		}
	}
	return p
}

// TestEachClientSendsSoManyRequestsASecondAndABurst: others and the probes notice
// nothing, and what was spent comes back with time.
func TestEachClientSendsSoManyRequestsASecondAndABurst(t *testing.T) {
	l := startLimited(t, Limits{RequestsPerSecond: 2, RequestsBurst: 3})
	a, b, stranger := l.who[0], l.who[1], l.who[2]
	for range 3 {
		l.gets("/v1/sinks", a, 200)
		l.gets("/v1/sinks", stranger, 401)
	}
	p := l.gets("/v1/sinks", a, 429)
	if want := `token "a" sends more than 2 requests a second (server.limits.requests_per_second)`; p.Detail != want || !strings.Contains(p.Hint, "try again in 1s") {
		t.Errorf("%s; %s", p.Detail, p.Hint)
	}
	if p := l.gets("/v1/sinks", stranger, 429); !strings.HasPrefix(p.Detail, "the address 127.0.0.1 ") {
		t.Error(p.Detail)
	}
	l.gets("/v1/sinks", b, 200)
	for _, path := range []string{"/livez", "/readyz", "/ui/"} {
		for range 5 {
			l.gets(path, a, 200)
		}
	}
	l.passes(499 * time.Millisecond)
	l.gets("/v1/sinks", a, 429)
	l.passes(time.Millisecond)
	l.gets("/v1/sinks", a, 200)
	l.gets("/v1/sinks", a, 429)
	l.passes(time.Second)
	l.gets("/v1/sinks", a, 200)
	l.passes(-time.Hour) // a clock that is set back takes nothing away
	l.gets("/v1/sinks", a, 200)
	l.gets("/v1/sinks", a, 429)
	l.passes(time.Hour) // no more than the burst comes back
	for range 3 {
		l.gets("/v1/sinks", a, 200)
	}
	l.gets("/v1/sinks", a, 429)
	if want := []string{"token requests", "stranger requests", "token requests", "token requests", "token requests", "token requests"}; !slices.Equal(l.throttled, want) {
		t.Errorf("throttled %q, want %q", l.throttled, want)
	}

	l.SetLimits(Limits{RequestsPerSecond: 2, RequestsBurst: 4})
	l.gets("/v1/sinks", a, 200)
	l.gets("/v1/sinks", a, 429)
	l.SetLimits(Limits{RequestsPerSecond: 1, RequestsBurst: 1}) // of the four that were spent, three count no more
	l.gets("/v1/sinks", a, 429)
	l.passes(time.Second)
	l.gets("/v1/sinks", a, 200)
	l.SetLimits(Limits{})
	for range 10 {
		l.gets("/v1/sinks", a, 200)
	}
}

// stands opens a request that stays open, and returns what closes it.
func (l *limited) stands(path string, who []string) (end func()) {
	l.Helper()
	ctx, cancel := context.WithCancel(l.Context())
	r, _ := http.NewRequestWithContext(ctx, "GET", l.url+path, nil)
	r.Header.Set(who[0], who[1])
	response, err := http.DefaultClient.Do(r)
	if err != nil || response.StatusCode != 200 {
		l.Fatalf("%s: %v %v", path, response, err)
	}
	if _, err := bufio.NewReader(response.Body).ReadString('\n'); err != nil {
		l.Fatal(err)
	}
	return func() { cancel(); response.Body.Close() }
}

// idle waits until nothing of a token's is under way.
func (l *limited) idle(name string) {
	l.Helper()
	for {
		l.limiter.mu.Lock()
		u := l.limiter.clients["token"].known[`token "`+name+`"`]
		over := u == nil || u.open == 0
		l.limiter.mu.Unlock()
		if over {
			return
		}
	}
}

// TestEachClientHasSoManyWatchesAndWaitsOpen: those that end make room, and so does one
// that was refused for another reason.
func TestEachClientHasSoManyWatchesAndWaitsOpen(t *testing.T) {
	l := startLimited(t, Limits{Watches: 3})
	a, b := l.who[0], l.who[1]
	waiting := make(chan struct{})
	l.fake.wait = func(ctx context.Context, _ record.Key, _ uint64) (engine.WaitResult, error) {
		close(waiting)
		<-ctx.Done()
		return engine.WaitResult{}, ctx.Err()
	}
	l.gets("/v1/watch?from=%00", a, 410)
	end := l.stands("/v1/watch", a)
	l.stands("/v1/status/watch", a)
	over, give := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r, _ := http.NewRequestWithContext(over, "GET", l.url+"/v1/sinks/web/resource/wait?key=k&timeout=10m", nil)
		r.Header.Set(a[0], a[1])
		if response, err := http.DefaultClient.Do(r); err == nil {
			response.Body.Close()
		}
	}()
	<-waiting
	p := l.gets("/v1/watch", a, 429)
	if want := `token "a" has 3 watches and waits open, and may have 3 (server.limits.watches)`; p.Detail != want {
		t.Error(p.Detail)
	}
	l.gets("/v1/status/watch", a, 429)
	l.gets("/v1/sinks/web/resource/wait?key=k", a, 429)
	l.gets("/v1/sagas/0123456789abcdef0123456789abcdef/wait", a, 429)
	l.gets("/v1/sinks", a, 200)
	l.stands("/v1/watch", b)
	give()
	<-gone
	end()
	for { // the server notices that the client is gone
		l.limiter.mu.Lock()
		left := l.limiter.clients["token"].known[`token "a"`].watches
		l.limiter.mu.Unlock()
		if left == 1 {
			break
		}
	}
	l.stands("/v1/watch", a)
	l.stands("/v1/watch", a)
	l.gets("/v1/watch", a, 429)
}

// TestEachClientSendsSoManyBytesOfBodiesAtOnce: of a body that says its length and of one
// that does not. One request alone may be larger.
func TestEachClientSendsSoManyBytesOfBodiesAtOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		length int64
	}{{"length known", 600}, {"length unknown", -1}} {
		t.Run(c.name, func(t *testing.T) {
			l := startLimited(t, Limits{BodyBytes: 1000})
			a, b := l.who[0], l.who[1]
			const body = `{"payload":1}`
			put := func(key string, who []string, status int) {
				t.Helper()
				if response, got := ask(t, "PUT", l.url+"/v1/sinks/web/resource?key="+key, body+strings.Repeat(" ", 500-len(body)), who...); response.StatusCode != status {
					t.Fatalf("%s %s, want %d", response.Status, got, status)
				} else if status == 429 && !strings.Contains(got, "bytes at once, and may send 1000 (server.limits.body_bytes)") {
					t.Error(got)
				}
			}
			begun, hold := make(chan struct{}), make(chan struct{})
			goOn := sync.OnceFunc(func() { close(hold) })
			defer goOn()
			var held atomic.Bool
			l.fake.beforePut = func(context.Context) {
				if held.CompareAndSwap(false, true) {
					close(begun)
					<-hold
				}
			}
			done := make(chan int)
			go func() {
				r, _ := http.NewRequest("PUT", l.url+"/v1/sinks/web/resource?key=held", io.NopCloser(strings.NewReader(body+strings.Repeat(" ", 600-len(body)))))
				r.ContentLength = c.length
				r.Header.Set(a[0], a[1])
				response, err := http.DefaultClient.Do(r)
				if err != nil {
					done <- 0
					return
				}
				response.Body.Close()
				done <- response.StatusCode
			}()
			<-begun
			put("a", a, 429)
			put("b", b, 200)
			l.gets("/v1/sinks", a, 200)
			goOn()
			if status := <-done; status != 200 {
				t.Errorf("the one that was held: %d", status)
			}
			l.idle("a")
			put("a", a, 200)
			l.SetLimits(Limits{BodyBytes: 100})
			l.idle("a")
			put("alone", a, 200)
		})
	}
}

// TestClientsThatAreIdleAreForgottenAndStrangersCrowdNobodyOut: there are never more than
// maxClients of a kind, and those that find no room share one allowance.
func TestClientsThatAreIdleAreForgottenAndStrangersCrowdNobodyOut(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	l := newLimiter(&Options{
		Limits: Limits{RequestsPerSecond: 1, RequestsBurst: 2}, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return now }, Throttled: func(string, access.Limit) {},
	})
	r := httptest.NewRequest("GET", "/", nil)
	ask := func(kind, name string) bool {
		release, p := l.admit(client{kind, name}, "GET /v1/sinks", r)
		if p == nil {
			release()
		}
		return p == nil
	}
	for i := range maxClients {
		if !ask("stranger", fmt.Sprint(i)) {
			t.Fatal("refused")
		}
	}
	if !ask("stranger", "x") || !ask("stranger", "y") || ask("stranger", "z") {
		t.Error("those who find no room share no allowance")
	}
	if !ask("stranger", "7") || ask("stranger", "7") {
		t.Error("one who was there before has lost count")
	}
	if !ask("token", "a") {
		t.Error("strangers crowd out a token")
	}
	if n := len(l.clients["stranger"].known); n != maxClients {
		t.Errorf("%d strangers are kept", n)
	}
	release, _ := l.admit(client{"stranger", "8"}, "GET /v1/sinks", r)
	now = now.Add(time.Hour)
	ask("stranger", "new")
	if k := l.clients["stranger"].known; len(k) != 2 || k["8"] == nil || k["new"] == nil {
		t.Errorf("%d strangers are kept after an hour, want the new one and one that is under way", len(k))
	}
	release()
}

// TestTheLogNamesWhoIsHeldBackOnceAMinuteButNoStranger: anybody could fill the log as one.
func TestTheLogNamesWhoIsHeldBackOnceAMinuteButNoStranger(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var log bytes.Buffer
	l := newLimiter(&Options{
		Limits: Limits{RequestsPerSecond: 1, RequestsBurst: 1}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Now: func() time.Time { return now }, Throttled: func(string, access.Limit) {},
	})
	r := httptest.NewRequest("GET", "/", nil)
	for _, c := range []client{{"token", `token "ci"`}, {"stranger", "the address 10.0.0.1"}} {
		for _, after := range []time.Duration{0, 0, 0, time.Minute, 0, 0} {
			now = now.Add(after)
			if release, p := l.admit(c, "GET /v1/sinks", r); p == nil {
				release()
			}
		}
	}
	got := log.String()
	if strings.Count(got, "\n") != 2 || strings.Count(got, `token \"ci\" sends more than 1 requests a second (server.limits.requests_per_second)`) != 2 {
		t.Errorf("the log says\n%s", got)
	}
}

// TestWhoseRequestsAreCountedTogether: a caller with a name of their own by that, all
// others by where they come from.
func TestWhoseRequestsAreCountedTogether(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:80"
	socket := r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(&net.UnixAddr{Net: "unix"})))
	for _, c := range []struct {
		r    *http.Request
		id   *access.Identity
		want client
	}{
		{r, &access.Identity{Name: "ci", Kind: "token"}, client{"token", `token "ci"`}},
		{r, &access.Identity{Name: "ci", Kind: "certificate"}, client{"certificate", `certificate "ci"`}},
		{socket, &access.Identity{Name: "ci", Kind: "token"}, client{"token", `token "ci"`}},
		{r, local, client{"local", "the address 10.0.0.1"}},
		{r, nil, client{"stranger", "the address 10.0.0.1"}},
		{socket, local, client{"local", "the unix socket"}},
	} {
		if got := clientOf(c.r, c.id); got != c.want {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

// TestAtAUnixSocketAUserIsAClient, whom the system names.
func TestAtAUnixSocketAUserIsAClient(t *testing.T) {
	peers, err := access.NewPeers(nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	s, _, _ := start(t, Options{Peers: peers, Limits: Limits{RequestsPerSecond: 1, RequestsBurst: 1}, Now: func() time.Time { return now }})
	path := filepath.Join(t.TempDir(), "s")
	stop := serve(t, s, listen(t, "unix", path))
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer c.CloseIdleConnections()
	for _, status := range []int{200, 429} {
		response, err := c.Get("http://pawl/v1/sinks")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if response.Body.Close(); err != nil || response.StatusCode != status {
			t.Fatalf("%s %s %v, want %d", response.Status, body, err, status)
		}
		if want := fmt.Sprintf("the user %d sends more", os.Geteuid()); status == 429 && !strings.Contains(string(body), want) {
			t.Errorf("%s, want %s", body, want)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
