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

// takesPart is full, in sagas too.
type takesPart struct{ full }

func (takesPart) Observe(_ context.Context, r *Request) (Observation, error) {
	return Observation{Exists: true, Content: r.Payload}, nil
}

func (takesPart) Restore(_ context.Context, r *Request) (Observation, error) {
	if r.Key == "changed" {
		return Observation{Exists: true}, Conflict("somebody else")
	}
	return Observation{Exists: r.Saga.Before.Exists, Ref: r.Saga.ID, CID: r.Saga.Before.CID}, nil
}

func (takesPart) Unlock(_ context.Context, r *Request) error {
	if r.Saga.Locks[0] != "0a" {
		return Retry("another lock")
	}
	return nil
}

func served(op Op, input []byte) []byte { return servedBy(full{}, op, input) }

func servedBy(ad Adapter, op Op, input []byte) []byte {
	var a answer
	newPlugin(Manifest{Name: "n", BatchMax: 10}, ad).serve(context.Background(), op, input, new(Request), &a)
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
	for _, op := range []Op{OpConfigure, OpObserve, OpApply, OpDelete, OpApplyBatch, OpPoll, OpCompare} {
		if got := string(served(op, []byte{0x0a, 5, 'x'})); !strings.Contains(got, "can't decode the host's request: message ends") {
			t.Errorf("operation %d answered %q", op, got)
		}
	}
}

// watched is full, and tells what it was asked.
type watched struct{ full }

func (watched) Poll(ctx context.Context, cursor string) (Changes, error) {
	switch cursor {
	case "busy":
		return Changes{}, TargetRetryAfter(time.Second, "later")
	case "many":
		return Changes{Seen: make([]Seen, MaxSeen+1)}, nil
	}
	return Changes{Seen: []Seen{{Key: "a", Observation: Observation{Exists: true, Content: []byte("x")}}, {Key: "b"}},
		Cursor: cursor + "+", More: true, Reset: true}, nil
}

func (watched) Compare(_ context.Context, c *Comparison) (Difference, error) {
	if c.Epoch == "" {
		return Difference{}, Rejected("of which store?")
	}
	return Difference{Nodes: [][]byte{c.Nodes[0].Prefix}, Items: [][]byte{c.Leaves[0].Items[0].Key}, Extra: []string{c.Sink}}, nil
}

func TestPollsAndComparisonsAreAnswered(t *testing.T) {
	poll := func(cursor string) []byte {
		return appendUint(appendString(appendString(nil, 1, "web"), 2, cursor), 3, 128)
	}
	field := func(b []byte, field uint32, msg []byte) []byte {
		return append(appendHead(b, field, len(msg)), msg...)
	}
	compare := appendString(appendString(nil, 1, "web"), 2, "e")
	compare = field(compare, 3, appendBytes(nil, 1, []byte{1}))
	compare = field(compare, 4, field(nil, 2, appendBytes(nil, 1, []byte{2})))
	seen := []Seen{{Key: "a", Observation: Observation{Exists: true, Content: []byte("x")}}, {Key: "b"}}
	failed := func(op Op, e *Error) []byte {
		if op == OpPoll {
			return appendPollResult(nil, &Changes{}, e)
		}
		return appendCompareResult(nil, &Difference{}, e)
	}
	rejected := func(message string) *Error { return &Error{Status: StatusRejected, Message: message} }
	for _, c := range []struct {
		name string
		by   Adapter
		op   Op
		in   []byte
		want []byte
	}{
		{"describe", watched{}, OpDescribe, nil, appendManifest(nil, &Manifest{Name: "n", BatchMax: 10,
			Ops: []Op{OpObserve, OpApply, OpDelete, OpApplyBatch, OpPoll, OpCompare}})},
		{"poll", watched{}, OpPoll, poll("17"), appendPollResult(nil, &Changes{Seen: seen, Cursor: "17+", More: true, Reset: true}, nil)},
		{"poll, not now", watched{}, OpPoll, poll("busy"), failed(OpPoll, AsError(TargetRetryAfter(time.Second, "later")))},
		{"poll, too many", watched{}, OpPoll, poll("many"), failed(OpPoll, rejected("the adapter told of 10001 objects in one poll, more than the 10000 allowed"))},
		{"poll, unimplemented", full{}, OpPoll, poll(""), failed(OpPoll, rejected("the plugin does not implement operation 7"))},
		{"compare", watched{}, OpCompare, compare, appendCompareResult(nil, &Difference{Nodes: [][]byte{{1}}, Items: [][]byte{{2}}, Extra: []string{"web"}}, nil)},
		{"compare, refused", watched{}, OpCompare, appendString(nil, 1, "web"), failed(OpCompare, rejected("of which store?"))},
		{"compare, unimplemented", full{}, OpCompare, compare, failed(OpCompare, rejected("the plugin does not implement operation 10"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := servedBy(c.by, c.op, c.in); !slices.Equal(got, c.want) {
				t.Errorf("got\n%.200q, want\n%.200q", got, c.want)
			}
		})
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

func TestTheOperationsOfASagaAreAnswered(t *testing.T) {
	field := func(field uint32, msg []byte) []byte { return append(appendHead(nil, field, len(msg)), msg...) }
	run := appendEntry(appendString(nil, 1, "r"), 3, "0a")
	of := func(key string, saga, payload []byte) []byte {
		return slices.Concat(request(key), appendBytes(nil, 4, payload), field(16, saga))
	}
	nothing := slices.Concat(run, field(5, nil))
	something := slices.Concat(run, field(5, appendString(appendUint(nil, 1, 1), 2, "c")))
	large := make([]byte, MaxImageBytes+1)
	result := func(o *Observation, status Status, message string) []byte {
		return appendResult(nil, o, &Error{Status: status, Message: message}, "")
	}
	for _, c := range []struct {
		name string
		by   Adapter
		op   Op
		in   []byte
		want []byte
	}{
		{"describe", takesPart{}, OpDescribe, nil, appendManifest(nil, &Manifest{Name: "n", BatchMax: 10,
			Ops: []Op{OpObserve, OpApply, OpDelete, OpApplyBatch, OpUnlock, OpRestore}})},
		{"restore", takesPart{}, OpRestore, of("k", something, nil), result(&Observation{Exists: true, Ref: "r", CID: "c"}, StatusOK, "")},
		{"restore of what was not there", takesPart{}, OpRestore, of("k", nothing, nil), result(&Observation{Ref: "r"}, StatusOK, "")},
		{"restore, changed", takesPart{}, OpRestore, of("changed", something, nil), result(&Observation{Exists: true}, StatusConflict, "somebody else")},
		{"restore without a saga", takesPart{}, OpRestore, request("k"), result(nil, StatusRejected, "the host's request names no saga, which this operation needs")},
		{"restore without an image", takesPart{}, OpRestore, of("k", run, nil), result(nil, StatusRejected, "the host's request says nothing of the object before the saga, which restore needs")},
		{"restore, unimplemented", full{}, OpRestore, of("k", something, nil), result(nil, StatusRejected, "the plugin does not implement operation 9")},
		{"unlock", takesPart{}, OpUnlock, of("k", run, nil), result(nil, StatusOK, "")},
		{"unlock, not now", takesPart{}, OpUnlock, of("k", appendEntry(nil, 3, "0b"), nil), result(nil, StatusRetry, "another lock")},
		{"unlock without a saga", takesPart{}, OpUnlock, request("k"), result(nil, StatusRejected, "the host's request names no saga, which this operation needs")},
		{"unlock, unimplemented", full{}, OpUnlock, of("k", run, nil), result(nil, StatusRejected, "the plugin does not implement operation 8")},
		{"an image that is too large", takesPart{}, OpObserve, of("k", run, large), result(nil, StatusRejected, "the object has 1048577 bytes, more than the 1048576 that a saga keeps to bring it back")},
		{"a large object where the image is known", takesPart{}, OpObserve, of("k", nothing, large), result(&Observation{Exists: true, Content: large}, StatusOK, "")},
		{"a large object outside of sagas", takesPart{}, OpObserve, append(request("k"), appendBytes(nil, 4, large)...), result(&Observation{Exists: true, Content: large}, StatusOK, "")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := servedBy(c.by, c.op, c.in); !slices.Equal(got, c.want) {
				t.Errorf("got\n%.200q, want\n%.200q", got, c.want)
			}
		})
	}
}
