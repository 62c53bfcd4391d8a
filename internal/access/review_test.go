package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/internal/bubble"
)

const jwt = "eyJhbGciOiJub25lIn0.e30.x"

// cluster answers token reviews with a status, or as a failing server.
type cluster struct {
	mu     sync.Mutex
	status string // the JSON of the answer's status
	code   int
	err    error
	asked  []string // bodies
	wait   chan struct{}
}

func (c *cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	c.asked = append(c.asked, string(body))
	status, code, err, wait := c.status, c.code, c.err, c.wait
	c.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	w.WriteHeader(max(code, 200))
	fmt.Fprintf(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":%s}`, status)
	return w.Result(), nil
}

func (c *cluster) questions() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.asked) }

func bearer(token string) *http.Request {
	r := httptest.NewRequest("GET", "/v1/sinks", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// bearerFrom is bearer, sent from an address with a port.
func bearerFrom(address, token string) *http.Request {
	r := bearer(token)
	r.RemoteAddr = address
	return r
}

const runner = `{"authenticated":true,"audiences":["pawl"],"user":{"username":"system:serviceaccount:ci:runner","groups":["system:serviceaccounts","system:serviceaccounts:ci"]}}`

func TestAClustersUserIsFoundByNameOrGroupAndOnlyForOurAudience(t *testing.T) {
	for name, c := range map[string]struct {
		status    string
		audiences []string
		client    ReviewClient
		says      string // the refusal; "": let in
	}{
		"by name":                   {runner, []string{"pawl"}, ReviewClient{Users: []string{"system:serviceaccount:ci:runner"}}, ""},
		"by group":                  {runner, []string{"x", "pawl"}, ReviewClient{Groups: []string{"system:serviceaccounts:ci"}}, ""},
		"somebody else":             {runner, []string{"pawl"}, ReviewClient{Users: []string{"system:serviceaccount:ci:other"}, Groups: []string{"ci"}}, "is none of this daemon's clients"},
		"for another audience":      {runner, []string{"x"}, ReviewClient{Groups: []string{"system:serviceaccounts:ci"}}, "does not know the token"},
		"no word of audiences":      {strings.Replace(runner, `"audiences":["pawl"],`, "", 1), []string{"pawl"}, ReviewClient{Groups: []string{"system:serviceaccounts:ci"}}, "does not know the token"},
		"for the API server":        {strings.Replace(runner, `"audiences":["pawl"],`, "", 1), nil, ReviewClient{Groups: []string{"system:serviceaccounts:ci"}}, ""},
		"not known":                 {`{"authenticated":false,"error":"expired"}`, []string{"pawl"}, ReviewClient{Users: []string{""}}, "does not know the token"},
		"a user without a name":     {`{"authenticated":true,"audiences":["pawl"],"user":{}}`, []string{"pawl"}, ReviewClient{Users: []string{"a"}}, "is none of this daemon's clients"},
		"not known, but with names": {strings.Replace(runner, "true", "false", 1), []string{"pawl"}, ReviewClient{Groups: []string{"system:serviceaccounts:ci"}}, "does not know the token"},
	} {
		cl := &cluster{status: c.status}
		c.client.Name, c.client.Grants, c.client.Senders = "ci", []Grant{{Scope: Read, Prefix: "a/"}}, []string{"edge-1"}
		v := NewReview(ReviewOptions{Transport: cl, BaseURL: "https://cluster", Audiences: c.audiences, Clients: []ReviewClient{{Name: "a", Users: []string{"nobody"}}, c.client}})
		id, err := v.Authenticate(bearer(jwt))
		if c.says != "" {
			if refusal, ok := errors.AsType[*Refusal](err); !ok || !strings.Contains(refusal.Detail, c.says) || strings.Contains(err.Error(), jwt) {
				t.Errorf("%s: %v, %v; want a refusal: %s", name, id, err, c.says)
			}
			continue
		}
		if err != nil || id.String() != `kubernetes "system:serviceaccount:ci:runner"` || !id.Allows(Read, "web", "a/b") || id.Allows(Read, "web", "b") || !id.MaySend("edge-1") {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
		var asked tokenReview
		if err := json.Unmarshal([]byte(cl.asked[0]), &asked); err != nil || asked.Spec.Token != jwt || len(asked.Spec.Audiences) != len(c.audiences) {
			t.Errorf("%s: asked %s", name, cl.asked[0])
		}
	}
}

func TestTheClusterNeverSeesATokenThatIsNoneOfItsKind(t *testing.T) {
	cl := &cluster{status: runner}
	v := NewReview(ReviewOptions{Transport: cl, BaseURL: "https://cluster"})
	basic := bearer(jwt)
	basic.Header.Set("Authorization", "Basic "+jwt)
	for _, r := range []*http.Request{bearer("pawl_secret"), bearer(""), bearer("a.b.c"), bearer("eyJ.b"), basic, httptest.NewRequest("GET", "/", nil)} {
		if id, err := v.Authenticate(r); id != nil || err != nil {
			t.Errorf("%q: %v, %v", r.Header.Get("Authorization"), id, err)
		}
	}
	if n := cl.questions(); n != 0 {
		t.Errorf("the cluster was asked %d times", n)
	}
}

func TestAnAnswerCountsForAWhileAndAFailureForNobodyElse(t *testing.T) {
	now := time.Now()
	cl := &cluster{status: runner, err: errors.New("connection refused")}
	v := NewReview(ReviewOptions{
		Transport: cl, BaseURL: "https://cluster", Now: func() time.Time { return now }, CacheFor: 10 * time.Second,
		Clients: []ReviewClient{{Groups: []string{"system:serviceaccounts:ci"}}},
	})
	if _, err := v.Authenticate(bearer(jwt)); err == nil || !strings.Contains(err.Error(), "does not answer") || errors.As(err, new(*Refusal)) {
		t.Fatalf("while the cluster is away: %v", err)
	}
	cl.err, cl.code = nil, 403
	if _, err := v.Authenticate(bearer(jwt)); err == nil || !strings.Contains(err.Error(), "system:auth-delegator") {
		t.Fatalf("without the right to ask: %v", err)
	}
	cl.code = 0
	for range 3 {
		if _, err := v.Authenticate(bearer(jwt)); err != nil {
			t.Fatal(err)
		}
	}
	if n := cl.questions(); n != 3 {
		t.Errorf("asked %d times, want 3: two that failed and one that counts", n)
	}
	cl.status = `{"authenticated":false}`
	now = now.Add(9 * time.Second)
	if _, err := v.Authenticate(bearer(jwt)); err != nil {
		t.Errorf("within the time: %v", err)
	}
	now = now.Add(2 * time.Second)
	for range 2 {
		if _, err := v.Authenticate(bearer(jwt)); !errors.As(err, new(*Refusal)) {
			t.Errorf("after it: %v", err)
		}
	}
	if n := cl.questions(); n != 4 {
		t.Errorf("asked %d times, want 4: a refusal counts as long", n)
	}
}

func TestManyWithOneTokenAskOnceAndASilentClusterHoldsNobodyForLong(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		cl := &cluster{status: runner, wait: make(chan struct{})}
		v := NewReview(ReviewOptions{Transport: cl, BaseURL: "https://cluster", Timeout: 5 * time.Second, Clients: []ReviewClient{{Groups: []string{"system:serviceaccounts"}}}})
		began := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, err := v.Authenticate(bearer(jwt)); err == nil {
					t.Error("let in without an answer")
				}
			})
		}
		all.Wait()
		if cl.questions() != 1 || time.Since(began) != 5*time.Second {
			t.Errorf("%d questions, %v", cl.questions(), time.Since(began))
		}
		for i := range 3 * reviewsAtOnce {
			all.Go(func() { _, _ = v.Authenticate(bearerFrom(fmt.Sprintf("192.0.2.%d:1", i), fmt.Sprintf("%s%d", jwt, i))) })
		}
		synctest.Wait()
		if n := cl.questions(); n != 1+reviewsAtOnce {
			t.Errorf("%d questions at once, want %d", n-1, reviewsAtOnce)
		}
		close(cl.wait)
		all.Wait()
	})
}

func TestRubbishFillsNoMemory(t *testing.T) {
	v := NewReview(ReviewOptions{Transport: &cluster{status: `{}`}, BaseURL: "https://cluster"})
	for i := range 3 * answersMax {
		_, _ = v.Authenticate(bearer(fmt.Sprintf("%s%d", jwt, i)))
	}
	if n := len(v.answers.known); n > answersMax {
		t.Errorf("%d answers are kept", n)
	}
}

// TestRubbishMakesNobodyWhoIsLetInBeAskedAboutAgain: the cluster may be slow or away
// meanwhile.
func TestRubbishMakesNobodyWhoIsLetInBeAskedAboutAgain(t *testing.T) {
	c := &cluster{status: runner}
	now := time.Unix(1, 0)
	v := NewReview(ReviewOptions{
		Transport: c, BaseURL: "https://cluster", Audiences: []string{"pawl"}, Now: func() time.Time { return now },
		Clients: []ReviewClient{{Name: "builds", Users: []string{"system:serviceaccount:ci:runner"}}},
	})
	if id, err := v.Authenticate(bearer(jwt)); id == nil {
		t.Fatal(err)
	}
	c.status = `{}`
	for i := range 2 * answersMax {
		_, _ = v.Authenticate(bearer(fmt.Sprintf("%s%d", jwt, i)))
	}
	c.err = errors.New("away")
	if id, err := v.Authenticate(bearer(jwt)); id == nil {
		t.Errorf("they are asked about again: %v", err)
	}
}
