package pawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWhatAnAdapterReturnsBecomesAStatus(t *testing.T) {
	custom := fmt.Errorf("while writing: %w", Conflict("version is old"))
	for _, c := range []struct {
		name    string
		err     error
		status  Status
		message string
	}{
		{"rejected", Rejected("bad"), StatusRejected, "bad"},
		{"wrapped", custom, StatusConflict, "version is old"},
		{"bare status", StatusObsolete, StatusObsolete, ""},
		{"wrapped status", fmt.Errorf("the key: %w", StatusNotFound), StatusNotFound, "the key: not found"},
		{"plain error", io.ErrUnexpectedEOF, StatusRetry, "unexpected EOF"},
		{"no answer", &Failure{Kind: FailConnect, Upstream: "u", Message: "refused"}, StatusUnreachable, `upstream "u": connection failed: refused`},
		{"denied", &Failure{Kind: FailDenied, Upstream: "u"}, StatusRejected, `upstream "u": refused by the host`},
		{"too large", &Failure{Kind: FailTooLarge, Upstream: "u"}, StatusRetry, `upstream "u": response too large`},
		{"unknown kind", &Failure{Kind: 99, Upstream: "u"}, StatusUnreachable, `upstream "u": failed`},
		{"context", context.DeadlineExceeded, StatusUnreachable, "context deadline exceeded"},
		{"invalid status", &Error{Status: 77, Message: "x"}, StatusRetry, "the adapter returned an invalid status: x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if e := AsError(c.err); e.Status != c.status || e.Message != c.message {
				t.Errorf("got %v %q, want %v %q", e.Status, e.Message, c.status, c.message)
			}
		})
	}
	if AsError(nil) != nil {
		t.Error("nil is not nil")
	}
}

func TestErrorsWorkWithErrorsIsAndAs(t *testing.T) {
	err := fmt.Errorf("x: %w", &Error{Status: StatusRetry, Message: "later", RetryAfter: time.Second, Err: io.EOF})
	if !errors.Is(err, StatusRetry) || !errors.Is(err, io.EOF) || errors.Is(err, StatusConflict) {
		t.Errorf("%v does not match what it should", err)
	}
	f := &Failure{Kind: FailTimeout, Upstream: "u"}
	if !errors.Is(f, context.DeadlineExceeded) || !errors.Is(f, StatusUnreachable) || errors.Is(f, context.Canceled) {
		t.Errorf("%v does not match what it should", f)
	}
	if e := AsError(TargetRetryAfter(time.Minute, "")); e.RetryAfter != time.Minute || !e.WholeTarget {
		t.Errorf("TargetRetryAfter is %+v", e)
	}
}

// full answers everything.
type full struct{ Unimplemented }

func (full) Observe(_ context.Context, r *Request) (Observation, error) {
	return Observation{Exists: r.Key == "there"}, nil
}

func (full) Apply(_ context.Context, r *Request) (Observation, error) {
	return Observation{AdapterState: make([]byte, len(r.Payload))}, nil
}

func (full) Configure(_ context.Context, c Config) (Configured, error) {
	if string(c.JSON) != "{}" {
		return Configured{}, errors.New("bad key")
	}
	return Configured{Target: "t", Manifest: &Manifest{Name: "m", Ops: []Op{OpApply}}}, nil
}

func (full) ApplyBatch(_ context.Context, rs []*Request) ([]BatchItem, error) {
	switch rs[0].Key {
	case "whole":
		return nil, Retry("all of it")
	case "short":
		return make([]BatchItem, len(rs)-1), nil
	}
	out := make([]BatchItem, len(rs))
	for i, r := range rs {
		if out[i].Observation.Ref = r.Key; r.Key == "bad" {
			out[i].Err = Rejected("no")
		}
	}
	return out, nil
}

func served(op Op, input []byte) []byte {
	var a answer
	newPlugin(Manifest{Name: "n", BatchMax: 10}, full{}).serve(context.Background(), op, input, new(Request), &a)
	return a.append(nil)
}

func TestEveryOperationIsAnswered(t *testing.T) {
	config := func(json string) []byte {
		up, start := openMessage(appendBytes(nil, 2, []byte(json)), 3)
		return closeMessage(appendString(up, 3, "http://x"), start)
	}
	batch := func(keys ...string) (b []byte) {
		for _, k := range keys {
			var start int
			b, start = openMessage(b, 1)
			b = closeMessage(append(b, request(k)...), start)
		}
		return b
	}
	result := func(o *Observation, status Status, message, target string) []byte {
		return appendResult(nil, o, &Error{Status: status, Message: message}, target)
	}
	item := func(b []byte, field uint32, msg []byte) []byte { return append(appendHead(b, field, len(msg)), msg...) }
	big := appendBytes(request("k"), 4, make([]byte, MaxAdapterStateBytes+1))
	for _, c := range []struct {
		name string
		op   Op
		in   []byte
		want []byte
	}{
		{"describe", OpDescribe, nil, appendManifest(nil, &Manifest{Name: "n", BatchMax: 10, Ops: []Op{OpObserve, OpApply, OpDelete, OpApplyBatch}})},
		{"configure", OpConfigure, config("{}"), result(&Observation{Content: appendManifest(nil, &Manifest{Name: "m", Ops: []Op{OpApply}})}, StatusOK, "", "t")},
		{"configure, refused", OpConfigure, config("[]"), result(nil, StatusRejected, "bad key", "")},
		{"observe, there", OpObserve, request("there"), result(&Observation{Exists: true}, StatusOK, "", "")},
		{"observe, missing", OpObserve, request("gone"), result(nil, StatusNotFound, "", "")},
		{"apply", OpApply, request("k"), result(nil, StatusOK, "", "")},
		{"apply, too much state", OpApply, big, result(nil, StatusRejected, "the adapter returned 65537 bytes of state, more than the 65536 allowed", "")},
		{"delete, unimplemented", OpDelete, request("k"), result(nil, StatusRejected, "the plugin does not implement delete", "")},
		{"an unknown op", 42, request("k"), result(nil, StatusRejected, "the plugin does not know operation 42", "")},
		{"batch", OpApplyBatch, batch("a", "bad"), item(item(nil, 1, result(&Observation{Ref: "a"}, StatusOK, "", "")), 1, result(&Observation{Ref: "bad"}, StatusRejected, "no", ""))},
		{"batch, whole", OpApplyBatch, batch("whole"), item(nil, 2, result(nil, StatusRetry, "all of it", ""))},
		{"batch, short", OpApplyBatch, batch("short", "b"), item(nil, 2, result(nil, StatusRetry, "the adapter answered 1 items to a batch of 2", ""))},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := served(c.op, c.in); !slices.Equal(got, c.want) {
				t.Errorf("got\n%q, want\n%q", got, c.want)
			}
		})
	}
}

func TestAMalformedRequestIsSaidToBe(t *testing.T) {
	for _, op := range []Op{OpConfigure, OpObserve, OpApply, OpDelete, OpApplyBatch} {
		if got := string(served(op, []byte{0x0a, 5, 'x'})); !strings.Contains(got, "can't decode the host's request: message ends") {
			t.Errorf("operation %d answered %q", op, got)
		}
	}
}

func TestTheTargetDefaultsToTheBaseURLs(t *testing.T) {
	var in []byte
	for _, u := range []string{"http://a", "http://b"} {
		var start int
		in, start = openMessage(in, 3)
		in = closeMessage(appendString(in, 3, u), start)
	}
	var a answer
	newPlugin(Manifest{}, Unimplemented{}).serve(context.Background(), OpConfigure, in, nil, &a)
	if a.target != "http://a http://b" || a.err != nil {
		t.Errorf("target %q, error %v", a.target, a.err)
	}
}
