package pawlhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	pawl "github.com/pawlsync/pawl/sdk/go"
	"github.com/pawlsync/pawl/sdk/go/pawlhttp"
	"github.com/pawlsync/pawl/sdk/go/pawltest"
)

// adapter puts its payload with net/http.
type adapter struct{ pawl.Unimplemented }

func (adapter) Apply(ctx context.Context, r *pawl.Request) (pawl.Observation, error) {
	req, err := http.NewRequestWithContext(ctx, "PUT", "http://ignored/things/"+r.Key+"?x=1", strings.NewReader(string(r.Payload)))
	if err != nil {
		return pawl.Observation{}, err
	}
	req.Header.Set("X-Test", "yes")
	resp, err := pawlhttp.Client(pawltest.UpstreamName).Do(req)
	if err != nil {
		return pawl.Observation{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return pawl.Observation{Exists: true, Ref: resp.Status + " " + resp.Header.Get("X-Answer") + " " + string(body)}, err
}

func TestAClientOfNetHTTPReachesTheUpstream(t *testing.T) {
	s := pawltest.New(t, adapter{}, pawltest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Answer", r.Method+r.RequestURI+r.Header.Get("X-Test"))
		w.WriteHeader(201)
		w.Write(body)
	})})
	got := s.Apply(&pawl.Request{Key: "a", Payload: []byte("body")})
	if want := "201 Created PUT/things/a?x=1yes body"; got.Status != pawl.StatusOK || got.Ref != want {
		t.Errorf("got %v %q, want %q", got.Err, got.Ref, want)
	}
}

func TestARedirectIsAnAnswerAndAFailureKeepsItsType(t *testing.T) {
	s := pawltest.New(t, adapter{}, pawltest.Options{Upstream: http.RedirectHandler("/elsewhere", http.StatusFound)})
	if got := s.Apply(&pawl.Request{Key: "a"}); !strings.HasPrefix(got.Ref, "302 ") {
		t.Errorf("got %q, want the redirect itself", got.Ref)
	}
	s.FailNext(pawl.Failure{Kind: pawl.FailConnect, Message: "refused"})
	got := s.Apply(&pawl.Request{Key: "a"})
	if f, ok := errors.AsType[*pawl.Failure](got.Err); !ok || f.Kind != pawl.FailConnect || got.Status != pawl.StatusUnreachable {
		t.Errorf("got %v (%v), want the failure as StatusUnreachable", got.Err, got.Status)
	}
}
