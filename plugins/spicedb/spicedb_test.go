package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/easyproto"

	pawl "github.com/pawlsync/pawl/sdk/go"
	"github.com/pawlsync/pawl/sdk/go/pawltest"
)

// What the adapter does to a real SpiceDB is tested in test/e2e, and its messages
// in bench. Here is what needs no server, and answers that a server gives seldom.

// answering is a server that answers every call with a gRPC status.
func answering(status, message string, trailers ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", status)
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", message)
		for i := 0; i < len(trailers); i += 2 {
			w.Header().Set(http.TrailerPrefix+trailers[i], trailers[i+1])
		}
	})
}

// details is a google.rpc.Status with an ErrorInfo, as a trailer holds it.
func details(reason string) string {
	m := &easyproto.Marshaler{}
	detail := m.MessageMarshaler().AppendMessage(3)
	detail.AppendString(1, "type.googleapis.com/google.rpc.ErrorInfo")
	detail.AppendMessage(2).AppendString(1, "ERROR_REASON_"+reason)
	return base64.RawStdEncoding.EncodeToString(m.Marshal(nil))
}

func sinkOf(t *testing.T, server http.Handler, config string) *pawltest.Sink {
	t.Helper()
	return pawltest.New(t, &adapter{}, pawltest.Options{Config: config, Upstream: server})
}

func touching(rows ...string) *pawl.Request {
	return &pawl.Request{Key: "k", Payload: []byte(`{"touch":["` + strings.Join(rows, `","`) + `"]}`)}
}

func TestEveryStatusHasItsMeaning(t *testing.T) {
	for _, c := range []struct {
		code   string
		reason string
		want   pawl.Status
	}{
		{"0", "", pawl.StatusOK},
		{"1", "", pawl.StatusRetry}, {"2", "", pawl.StatusRetry},
		{"3", "", pawl.StatusRejected}, {"3", "INVALID_SUBJECT_TYPE", pawl.StatusRejected},
		{"4", "", pawl.StatusRetry}, {"5", "", pawl.StatusRejected}, {"6", "", pawl.StatusAlreadyExists},
		{"7", "", pawl.StatusUnauthorized}, {"8", "", pawl.StatusRetry},
		{"9", "", pawl.StatusRejected}, {"9", "UNKNOWN_DEFINITION", pawl.StatusRejected},
		{"9", "WRITE_OR_DELETE_PRECONDITION_FAILURE", pawl.StatusConflict}, {"9", "INVALID_CURSOR", pawl.StatusRetry},
		{"10", "", pawl.StatusRetry}, {"11", "", pawl.StatusRetry}, {"12", "", pawl.StatusRejected},
		{"13", "", pawl.StatusRetry}, {"14", "", pawl.StatusRetry}, {"15", "", pawl.StatusRetry}, {"16", "", pawl.StatusUnauthorized},
		{"17", "", pawl.StatusRetry}, {"", "", pawl.StatusRetry},
	} {
		s := sinkOf(t, answering(c.code, "it%20is%20so", "Grpc-Status-Details-Bin", details(c.reason)), `{}`)
		got := s.Apply(touching("document:a#viewer@user:b"))
		if got.Status != c.want || c.want != pawl.StatusOK && c.code != "17" && c.code != "" && !strings.Contains(got.Message, "it is so") {
			t.Errorf("code %q, %s: %v %q, want %v", c.code, c.reason, got.Status, got.Message, c.want)
		}
	}
}

func TestAServerMayAskToWait(t *testing.T) {
	s := sinkOf(t, answering("8", "slowly", "Grpc-Retry-Pushback-Ms", "1500"), `{}`)
	if got := s.Apply(touching("document:a#viewer@user:b")); got.RetryAfter != 1500*time.Millisecond || !got.WholeTarget {
		t.Errorf("after %v, the whole target %v", got.RetryAfter, got.WholeTarget)
	}
}

func TestAWriteThatMetAnotherIsRepeatedAtOnce(t *testing.T) {
	n := 0
	s := sinkOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n < 3 {
			answering("10", "conflict").ServeHTTP(w, r)
			return
		}
		answering("0", "").ServeHTTP(w, r)
	}), `{}`)
	if got := s.Apply(touching("document:a#viewer@user:b")); got.Status != pawl.StatusOK || n != 3 {
		t.Errorf("%v after %d calls", got.Status, n)
	}
}

func TestASecretContextIsNotRepeated(t *testing.T) {
	for _, c := range [][]string{
		{"2", "could not convert context parameter `pin`: invalid value `1234`"}, {"2", "something with 1234"},
		{"3", "1234 is no int", "Grpc-Status-Details-Bin", details("CAVEAT_PARAMETER_TYPE_ERROR")},
		{"3", "[pin:1234] is too long", "Grpc-Status-Details-Bin", details("MAX_RELATIONSHIP_CONTEXT_SIZE")},
	} {
		s := sinkOf(t, answering(c[0], c[1], c[2:]...), `{}`)
		r := &pawl.Request{Key: "k", Payload: []byte(`{"touch":["document:a#viewer@user:b[pinned:{\"pin\":\"1234\"}]"]}`)}
		if got := s.Apply(r); got.Status == pawl.StatusOK || strings.Contains(got.Message, "1234") {
			t.Errorf("%q: %v %q", c[1], got.Status, got.Message)
		}
	}
}

func TestAnAnswerThatIsNoGRPC(t *testing.T) {
	for status, want := range map[int]pawl.Status{200: pawl.StatusRetry, 401: pawl.StatusUnauthorized, 404: pawl.StatusRetry, 503: pawl.StatusRetry} {
		s := sinkOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }), `{}`)
		if got := s.Apply(touching("document:a#viewer@user:b")); got.Status != want || !strings.Contains(got.Message, "protocol") {
			t.Errorf("%d: %v %q", status, got.Status, got.Message)
		}
	}
}

func TestRelationshipsAreReadInBothForms(t *testing.T) {
	cfg := &config{prune: false}
	read := func(entry string) (*relationship, error) {
		d, err := cfg.read([]byte(`{"touch":[`+entry+`]}`), time.Unix(0, 0))
		if err != nil {
			return nil, err
		}
		return &d.want[0], nil
	}
	for text, fields := range map[string]string{
		`"document:a#viewer@user:b"`:                                  `{"resource":"document:a","relation":"viewer","subject":"user:b"}`,
		`"document:a#viewer@user:b#..."`:                              `{"resource":"document:a","relation":"viewer","subject":"user:b"}`,
		`"t1x/document:a#viewer@group:b#member"`:                      `{"resource":"t1x/document:a","relation":"viewer","subject":"group:b#member"}`,
		`"document:a#viewer@user:*"`:                                  `{"resource":"document:a","relation":"viewer","subject":"user:*"}`,
		`"document:a#viewer@user:b[cav]"`:                             `{"resource":"document:a","relation":"viewer","subject":"user:b","caveat":{"name":"cav"}}`,
		`"document:a#viewer@user:b[cav:{}]"`:                          `{"resource":"document:a","relation":"viewer","subject":"user:b","caveat":{"name":"cav","context":{}}}`,
		`"document:a#viewer@user:b[expiration:2030-01-01T00:00:00Z]"`: `{"resource":"document:a","relation":"viewer","subject":"user:b","expires_at":"2030-01-01T01:00:00+01:00"}`,
		`"document:a#viewer@user:b[cav:{\"x\":\"[expiration:1]\"}]"`:  `{"resource":"document:a","relation":"viewer","subject":"user:b","caveat":{"name":"cav","context":{"x":"[expiration:1]"}}}`,
		`"document:a#viewer@user:b[cav:{\"b\":1,\"a\":[true,null]}][expiration:2030-01-01T00:00:00.0000001Z]"`: `{"resource":"document:a","relation":"viewer","subject":"user:b","expires_at":"2030-01-01T00:00:00Z","caveat":{"name":"cav","context":{"a":[true,null],"b":1.0}}}`,
	} {
		a, errA := read(text)
		b, errB := read(fields)
		if errA != nil || errB != nil {
			t.Errorf("%s: %v; %s: %v", text, errA, fields, errB)
		} else if a.key != b.key || !a.sameTraits(b) || a.digest() != b.digest() {
			t.Errorf("%s is not %s:\n%+v\n%+v", text, fields, a, b)
		}
	}
	for _, wrong := range []string{
		`"document:a#viewer"`, `"document:a@user:b"`, `"document#viewer@user:b"`, `"document:a#viewer@user"`, `"document:a#viewer@user:b#"`,
		`"document:a b#viewer@user:b"`, `"document:*#viewer@user:b"`, `"Document:a#viewer@user:b"`, `"document:a#vi@user:b"`,
		`"document:a#viewer@user:b[]"`, `"document:a#viewer@user:b[cav:[1]]"`, `"document:a#viewer@user:b[cav"`, `"document:a#viewer@user:b["`,
		`"document:a#viewer@user:b[expiration:soon]"`, `"document:a#viewer@user:b[cav:{\"n\":9007199254740993}]"`, `7`,
		`{"resource":"document:a#x","relation":"viewer","subject":"user:b"}`, `{"resource":"document:a","relation":"viewer"}`,
		`{"resource":"document:a","relation":"viewer","subject":"user:b","caveat":{"context":{}}}`, `{"resorce":"document:a"}`,
	} {
		if r, err := read(wrong); err == nil {
			t.Errorf("%s is read as %+v", wrong, r)
		} else if !strings.Contains(err.Error(), "touch[0]") {
			t.Errorf("%s: %v does not say where", wrong, err)
		}
	}
}

func TestWhatAnAckKeepsIsReadAgain(t *testing.T) {
	var names []string
	for i := range 3000 {
		names = append(names, fmt.Sprintf("document:a-document-with-a-long-name#viewer@user:someone-%d", i))
	}
	slices.Sort(names)
	for _, s := range []*state{
		{}, {owned: names, unwanted: []string{"document:x#viewer@user:y"}},
		{scope: &scope{resourceType: "document", resourceID: "a", relations: []string{"editor", "viewer"}, subjectTypes: []string{"user"}}},
	} {
		b, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		var again state
		if !again.decode(b) || !slices.Equal(again.owned, s.owned) || !slices.Equal(again.unwanted, s.unwanted) ||
			(s.scope == nil) != (again.scope == nil) || s.scope != nil && !s.scope.equal(again.scope) {
			t.Errorf("%d bytes: %+v", len(b), again)
		}
		for n := range min(len(b), 200) {
			var cut state
			if cut.decode(b[:n]) {
				t.Errorf("%d of %d bytes are read", n, len(b))
			}
		}
	}
	for i := range 20_000 {
		names = append(names, fmt.Sprintf("document:%d#viewer@user:someone", i))
	}
	if _, err := (&state{owned: names}).encode(); err == nil || !strings.Contains(err.Error(), "prune") {
		t.Errorf("more than there is room for: %v", err)
	}
}

func TestABadResourceOfABatchIsFoundAndChargedAlone(t *testing.T) {
	calls := 0
	s := &adapter{}
	server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		if b, _ := io.ReadAll(r.Body); strings.Contains(string(b), "bad") {
			answering("3", "no", "Grpc-Status-Details-Bin", details("INVALID_SUBJECT_TYPE")).ServeHTTP(w, r)
			return
		}
		answering("0", "").ServeHTTP(w, r)
	})
	sink := pawltest.New(t, s, pawltest.Options{Upstream: server})
	var rs []*pawl.Request
	for i := range 64 {
		id := fmt.Sprintf("good%d", i)
		if i == 41 {
			id = "bad"
		}
		rs = append(rs, touching("document:"+id+"#viewer@user:b"))
	}
	for i, got := range sink.ApplyBatch(rs) {
		if want := i != 41; (got.Status == pawl.StatusOK) != want {
			t.Errorf("resource %d: %v %s", i, got.Status, got.Message)
		}
	}
	if calls > 14 {
		t.Errorf("%d calls to find one of 64", calls)
	}
	// Rows in common go in requests of their own: SpiceDB takes none twice.
	sink.Sent()
	sink.ApplyBatch([]*pawl.Request{touching("document:a#viewer@user:b"), touching("document:a#viewer@user:b"), touching("document:c#viewer@user:b")})
	if n := len(sink.Sent()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestADeletionOfWhatIsNotKnownAnyMoreIsRefused(t *testing.T) {
	s := sinkOf(t, answering("0", ""), `{}`)
	r := &pawl.Request{Key: "k", Attempted: []pawl.Attempt{{ContentHash: pawltest.Hash([]byte("x"))}}}
	if got := s.Delete(r); got.Status != pawl.StatusRejected || !strings.Contains(got.Message, "forget") {
		t.Errorf("%v %q", got.Status, got.Message)
	}
	if got := s.Delete(&pawl.Request{Key: "k"}); got.Status != pawl.StatusOK {
		t.Errorf("nothing was ever there: %v", got.Status)
	}
}
