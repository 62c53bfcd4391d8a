package record

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

var seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of random tests")

// fill sets every exported field below v to a random value that is not zero, so
// that a field which the encoding forgets is noticed as soon as it is added.
func fill(r *rand.Rand, v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(r.Int64N(4e9)+1, r.Int64N(1e9)).UTC()))
		return
	case time.Duration:
		v.SetInt(r.Int64() + 1)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem())
	case reflect.Slice:
		n := 1 + r.IntN(4)
		if r.IntN(4) == 0 {
			n = 1 + r.IntN(300)
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(r, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.String:
		v.SetString(strings.Repeat("é", r.IntN(100)) + "x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(1 + r.Uint64N(255))
	case reflect.Uint64:
		v.SetUint(r.Uint64() | 1)
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64()>>r.IntN(60) | 1)
	default:
		panic("no value for " + v.Type().String())
	}
}

func TestEveryFieldComesBack(t *testing.T) {
	t.Logf("-seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 0))
	for range 300 {
		var d, gotD Desired
		fill(r, reflect.ValueOf(&d).Elem())
		gotD, err := ParseDesired(AppendDesired([]byte("before"), &d)[6:])
		if err != nil || !reflect.DeepEqual(d, gotD) {
			t.Fatalf("desired differs: %v\n%+v\n%+v", err, d, gotD)
		}
		var s Status
		fill(r, reflect.ValueOf(&s).Elem())
		gotS, err := ParseStatus(AppendStatus([]byte("before"), &s)[6:])
		if err != nil || !reflect.DeepEqual(s, gotS) {
			t.Fatalf("status differs: %v\n%+v\n%+v", err, s, gotS)
		}
	}
}

func TestTheZeroValueTakesNoByte(t *testing.T) {
	if b := AppendDesired(nil, &Desired{}); len(b) != 0 {
		t.Errorf("desired: % x", b)
	}
	if b := AppendStatus(nil, &Status{}); len(b) != 0 {
		t.Errorf("status: % x", b)
	}
}

func TestEmptyElementsAreKept(t *testing.T) {
	want := Status{
		Acked:       &Acked{},
		Attempted:   []Attempt{{}, {}},
		DriftPaths:  []string{"", "a", ""},
		Corrections: []time.Time{{}, time.Unix(0, 0).UTC()},
		Conditions:  []Condition{{}},
		History:     []Transition{{}, {}},
	}
	got, err := ParseStatus(AppendStatus(nil, &want))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// The bytes are on people's disks. Where this test fails, the format changed:
// add a field instead, or a migration.
func TestGoldenBytes(t *testing.T) {
	at := time.Unix(1, 5).UTC()
	d := Desired{
		Generation: 300, Tombstone: true, Gone: true, GoneUntil: at, Payload: []byte("p"), Conflict: SourceWins,
		Deletion: Retain, Suspend: true, Order: Order{"s", "e", 7}, Owner: "o", PutAt: at,
		WaitingSince: at, Retry: Retry{Base: 1, Max: 2, MaxAttempts: 3, Stall: 4}, IdempotencyKey: "k",
	}
	s := Status{
		Generation: 1, Phase: AckedPhase, Reason: ReasonDrift, Message: "m", Attempts: 2, NextAt: at, Delay: 3,
		FailedAt: at, LookedAt: at, Acked: &Acked{Generation: 4, Missing: true, Ref: "r", AsFound: "f", UID: "u",
			Cursor: "c", Object: "b", Adapter: []byte("a"), Target: "t", Payload: []byte("p"), At: at},
		Attempted: []Attempt{{Generation: 5, Delete: true, Payload: []byte("p"), Deadline: at}}, DriftPaths: []string{"d"},
		Corrections: []time.Time{at}, Suspended: true, Looks: 6, Conditions: []Condition{{Type: "T", Status: True,
			Reason: "R", Message: "m", LastTransitionTime: at, ObservedGeneration: 7}},
		History: []Transition{{At: at, Phase: Failed, Reason: "R", Message: "m", Generation: 8, Took: 9}}, UpdatedAt: at, Command: "x",
		Retry: Retry{Base: 5},
	}
	for name, got := range map[string][2]string{
		"desired": {hex.EncodeToString(AppendDesired(nil, &d)), goldenDesired},
		"status":  {hex.EncodeToString(AppendStatus(nil, &s)), goldenStatus},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is\n%s, want\n%s", name, got[0], got[1])
		}
	}
}

const (
	goldenDesired = "08ac0210011801208aa8d6b9072a01703a0b736f757263652d77696e73420672657461696e48015201735a0165" +
		"60076a016f708aa8d6b907788aa8d6b9079a01080802100418062008a201016b"
	goldenStatus = "0801120541636b65641a05447269667422016d2804308aa8d6b9073806408aa8d6b907488aa8d6b907522208" +
		"0418012201722a01663201753a01634201624a01615201745a0170608aa8d6b9075a0d08051801220170288aa8d6b907620164688aa8" +
		"d6b9077001780c8201170a01541204547275651a015222016d288aa8d6b90730078a0118088aa8d6b90712064661696c65641a015222" +
		"016d2808301290018aa8d6b9079a010178b20102080a"
)

func TestUnknownFieldsAreSkipped(t *testing.T) {
	b := AppendDesired(nil, &Desired{Generation: 3, Owner: "o"})
	b = protowire.AppendVarint(protowire.AppendTag(b, 900, protowire.VarintType), 1)
	b = protowire.AppendFixed64(protowire.AppendTag(b, 901, protowire.Fixed64Type), 1)
	b = protowire.AppendString(protowire.AppendTag(b, 902, protowire.BytesType), "new")
	got, err := ParseDesired(b)
	if err != nil || got.Generation != 3 || got.Owner != "o" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestMalformedBytesAreAnError(t *testing.T) {
	for name, b := range map[string][]byte{
		"a cut tag":        {0x80},
		"a cut varint":     {0x08, 0x80},
		"a cut string":     {0x6a, 5, 'a'},
		"a wrong type":     {0x0a, 0},
		"a short hash":     {0x32, 1, 1},
		"a huge length":    {0x2a, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"a fixed for uint": {0x09, 1, 2, 3, 4, 5, 6, 7, 8},
	} {
		if _, err := ParseDesired(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", name, err)
		}
	}
}

// Cut anywhere, the bytes give an error or a value, never a panic, and what
// was parsed shares no memory with them.
func TestTruncatedBytesNeverPanic(t *testing.T) {
	t.Logf("-seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 1))
	var d Desired
	var s Status
	fill(r, reflect.ValueOf(&d).Elem())
	fill(r, reflect.ValueOf(&s).Elem())
	desired, status := AppendDesired(nil, &d), AppendStatus(nil, &s)
	for i := 0; i < len(status); i += 1 + len(status)/2000 {
		ParseDesired(desired[:min(i, len(desired))])
		ParseStatus(status[:i])
	}
	got, err := ParseDesired(desired)
	clear(desired)
	if err != nil || !bytes.Equal(got.Payload, d.Payload) {
		t.Error("the payload changed with the bytes that it was parsed from")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(AppendDesired(nil, &Desired{Generation: 1, Payload: []byte("p"), PutAt: time.Unix(1, 1)}))
	f.Add(AppendStatus(nil, &Status{Generation: 1, Acked: &Acked{Ref: "r"}, DriftPaths: []string{""}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, err := ParseDesired(b); err == nil {
			again, err := ParseDesired(AppendDesired(nil, &d))
			if err != nil || !reflect.DeepEqual(d, again) {
				t.Errorf("desired differs after a second round: %v", err)
			}
		}
		if s, err := ParseStatus(b); err == nil {
			again, err := ParseStatus(AppendStatus(nil, &s))
			if err != nil || !reflect.DeepEqual(s, again) {
				t.Errorf("status differs after a second round: %v", err)
			}
		}
	})
}

func BenchmarkParseStatus(b *testing.B) {
	at := time.Unix(1_700_000_000, 0)
	s := Status{Generation: 1, Phase: AckedPhase, UpdatedAt: at, LookedAt: at, Acked: &Acked{Generation: 1, Ref: "ref", Target: "target", At: at},
		Conditions: []Condition{{Type: CondAcked, Status: True, LastTransitionTime: at}},
		History:    []Transition{{At: at, Phase: Pending}, {At: at, Phase: AckedPhase}}}
	data := AppendStatus(nil, &s)
	b.ReportAllocs()
	for b.Loop() {
		ParseStatus(data)
	}
}
