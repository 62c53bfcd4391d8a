package e2e

import (
	"encoding/base64"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

// answer is what a SpiceDB in trouble says to a write.
type answer struct {
	code    string // of gRPC
	message string
	reason  string // of its ErrorInfo; "": none
	delayMs uint64 // of its RetryInfo; 0: none
}

// details is the google.rpc.Status that goes with an answer, as its trailer holds it.
func (a *answer) details() string {
	field := func(n byte, content []byte) []byte {
		return append(binary.AppendUvarint([]byte{n<<3 | 2}, uint64(len(content))), content...)
	}
	any := func(name string, content []byte) []byte {
		return field(3, append(field(1, []byte("type.googleapis.com/google.rpc."+name)), field(2, content)...))
	}
	var b []byte
	if a.reason != "" {
		b = append(b, any("ErrorInfo", field(1, []byte("ERROR_REASON_"+a.reason)))...)
	}
	if a.delayMs > 0 {
		nanos := binary.AppendUvarint([]byte{2 << 3}, a.delayMs*1e6) // below a second
		b = append(b, any("RetryInfo", field(1, nanos))...)
	}
	return base64.RawStdEncoding.EncodeToString(b)
}

// troubled stands before SpiceDB and answers writes in its place, for as long as it is told to.
type troubled struct {
	mu     sync.Mutex
	answer *answer // nil: SpiceDB itself answers
	times  int     // how often it is given yet; below 0: until it is changed
	writes int     // that have arrived since it was set
}

func (f *troubled) set(a *answer, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer, f.times, f.writes = a, times, 0
}

func (f *troubled) seen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

func (f *troubled) answers(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasSuffix(r.URL.Path, "/WriteRelationships") {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes++
	if f.answer == nil || f.times == 0 {
		return false
	}
	f.times--
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", f.answer.code)
	w.Header().Set(http.TrailerPrefix+"Grpc-Message", f.answer.message)
	w.Header().Set(http.TrailerPrefix+"Grpc-Status-Details-Bin", f.answer.details())
	return true
}

// introuble is a rig whose writes are answered by somebody else at times.
func (s *spice) introuble(t *testing.T, o engine.SinkOptions) (*rig, *troubled) {
	t.Helper()
	f := &troubled{}
	return start(t, connect(t, s.plugin, strings.TrimPrefix(s.front(t, f.answers), "http://"), s.Key, `{}`), o), f
}

// troubles are answers that a SpiceDB gives under load, in the middle of an upgrade, or
// when its keys are changed: the real one can't be brought to them at will.
func (s *spice) troubles(t *testing.T) {
	for name, c := range map[string]struct {
		answer answer
		reason record.Reason
		told   string
	}{
		"resource exhausted":    {answer{code: "8", message: "too%20much"}, record.ReasonRetryable, "RESOURCE_EXHAUSTED: too much"},
		"unavailable":           {answer{code: "14", message: "restarting"}, record.ReasonRetryable, "UNAVAILABLE"},
		"deadline":              {answer{code: "4", message: "slow"}, record.ReasonRetryable, "DEADLINE_EXCEEDED"},
		"unauthenticated":       {answer{code: "16", message: "the key was changed"}, record.ReasonUnauthorized, "UNAUTHENTICATED"},
		"serialization":         {answer{code: "10", reason: "SERIALIZATION_FAILURE"}, record.ReasonRetryable, "SERIALIZATION_FAILURE"},
		"precondition of a row": {answer{code: "9", reason: "WRITE_OR_DELETE_PRECONDITION_FAILURE"}, record.ReasonConflict, "PRECONDITION_FAILURE"},
	} {
		t.Run(name, func(t *testing.T) {
			r, f := s.introuble(t, engine.SinkOptions{MaxAttempts: 1000})
			id := "document:trouble-" + strings.ReplaceAll(name, " ", "-")
			f.set(&c.answer, -1)
			g := r.put(t, "x", `{"touch":["`+id+`#viewer@user:anne"]}`)
			eventually(t, "it is told", func() bool {
				st := r.status(t, "x")
				return st.Phase == record.Pending && st.Reason == c.reason && strings.Contains(st.Message, c.told)
			})
			s.expect(t, id)
			f.set(nil, 0)
			if res := r.settle(t, "x", g); !res.Done {
				t.Errorf("%+v", res)
			}
			s.expect(t, id, id+"#viewer@user:anne")
		})
	}
	t.Run("a time to wait is the whole server's", func(t *testing.T) {
		r, f := s.introuble(t, engine.SinkOptions{MaxAttempts: 2})
		f.set(&answer{code: "8", message: "later", delayMs: 60}, -1)
		g := r.put(t, "x", `{"touch":["document:trouble-wait#viewer@user:anne"]}`)
		eventually(t, "the sink pauses", func() bool { return !r.Sinks()[0].PausedUntil.IsZero() })
		eventually(t, "it is tried more often than a resource may fail", func() bool { return f.seen() > 3 })
		if st := r.status(t, "x"); st.Phase == record.Failed || st.Attempts > 0 {
			t.Errorf("charged to the resource: %+v", st)
		}
		f.set(nil, 0)
		if res := r.settle(t, "x", g); !res.Done {
			t.Errorf("%+v", res)
		}
	})
	t.Run("a write that met another is repeated at once", func(t *testing.T) {
		r, f := s.introuble(t, engine.SinkOptions{})
		f.set(&answer{code: "10", reason: "SERIALIZATION_FAILURE"}, 3)
		r.acked(t, "x", `{"touch":["document:trouble-met#viewer@user:anne"]}`)
		if calls := r.sink.applies.Load() + r.sink.batches.Load(); calls != 1 || f.seen() != 4 {
			t.Errorf("%d calls of the adapter and %d writes, want 1 and 4", calls, f.seen())
		}
		s.expect(t, "document:trouble-met", "document:trouble-met#viewer@user:anne")
	})
}
