package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the answers of testdata/answers.txt anew")

// requests are what testdata/requests.txt holds, which the plugin's codec writes.
func requests() map[string]func(msg []byte) (got, want any, err error) {
	hello := func(want Hello) func([]byte) (any, any, error) {
		return func(msg []byte) (any, any, error) { got, err := ReadHello(msg); return got, want, err }
	}
	item := func(want Item) func([]byte) (any, any, error) {
		return func(msg []byte) (any, any, error) { got, err := ReadItem(msg); return got, want, err }
	}
	prefix, sum := []byte{0xab}, bytes.Repeat([]byte{7}, 16)
	return map[string]func([]byte) (any, any, error){
		"hello": hello(Hello{Sender: "edge-1", Epoch: "e"}),
		"hello-full": hello(Hello{Sender: "edge-1", Epoch: "e", Ack: Processed, Ticket: "t", Sink: "web", Prefix: "p/",
			Conflict: "report-only", Deletion: "retain", Millis: 500, From: "up"}),
		"put":       item(Item{Kind: Put, Key: "web/a", Number: 300, Payload: bytes.Repeat([]byte("x"), 200)}),
		"put-empty": item(Item{Kind: Put, Key: "web/ä", Number: 1}),
		"delete":    item(Item{Kind: Delete, Key: "web/a", Number: 1 << 40}),
		"look":      item(Item{Kind: Look, Key: "web/a", Number: 2, Hash: bytes.Repeat([]byte{9}, 32)}),
		"comparison": func(msg []byte) (any, any, error) {
			got, err := ReadComparison(msg)
			return got, Comparison{
				Nodes:  []Node{{Count: 3, Digest: sum}, {Prefix: prefix, Digest: make([]byte, 16)}},
				Leaves: []Leaf{{Prefix: prefix, Items: append(bytes.Repeat([]byte{0xab}, 16), sum...)}, {}},
			}, err
		},
	}
}

// answers are what testdata/answers.txt holds, which the plugin's codec reads.
func answers() map[string][]byte {
	hash := bytes.Repeat([]byte{9}, 32)
	return map[string][]byte{
		"welcome":          AppendWelcome(nil, Welcome{State: Present}),
		"welcome-begin":    AppendWelcome(nil, Welcome{State: Begin, Ticket: "t", Message: "m"}),
		"result":           AppendResult(nil, &Result{Outcome: Done}),
		"result-full":      AppendResult(nil, &Result{Outcome: Waiting, Message: strings.Repeat("m", 200), Millis: 1000, Ref: "web/a", Hash: hash}),
		"difference":       AppendDifference(nil, &Difference{Nodes: [][]byte{{}, {1, 2}}, Items: hash, Extra: []string{"web/a", "web/ä"}}),
		"difference-empty": AppendDifference(nil, &Difference{}),
	}
}

func TestTheCodecReadsWhatThePluginWrites(t *testing.T) {
	vectors := read(t, "testdata/requests.txt")
	for name, decode := range requests() {
		msg, rest, err := Next(vectors[name])
		if err != nil || msg == nil || len(rest) != 0 {
			t.Errorf("%s: no one message: %v", name, err)
			continue
		}
		got, want, err := decode(msg)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
		delete(vectors, name)
	}
	for name := range vectors {
		t.Errorf("%s is in the file, and no test knows it", name)
	}
}

func TestAnswersAreTheirVectors(t *testing.T) {
	const file = "testdata/answers.txt"
	if *update {
		var b strings.Builder
		for _, name := range []string{"welcome", "welcome-begin", "result", "result-full", "difference", "difference-empty"} {
			fmt.Fprintf(&b, "%s %x\n", name, answers()[name])
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := answers(), read(t, file); !reflect.DeepEqual(got, want) {
		t.Errorf("got %x\nwant %x", got, want)
	}
}

// Whatever is cut off or damaged is an error, and none of it a panic.
func TestDamageIsAnError(t *testing.T) {
	for name, whole := range read(t, "testdata/requests.txt") {
		for n := 1; n < len(whole); n++ {
			if msg, _, err := Next(whole[:n]); err == nil || msg != nil {
				t.Fatalf("%s cut to %d bytes is a message", name, n)
			}
		}
	}
	for what, msg := range map[string][]byte{"no kind": {}, "an unknown kind": {8, 9}, "no UTF-8": {18, 1, 0xff, 8, 1}, "a cut field": {18, 5, 'a'}, "a damaged tag": {0x80}} {
		if _, err := ReadItem(msg); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := ReadHello([]byte{24, 2}); !errors.Is(err, ErrMalformed) {
		t.Errorf("an unknown ack level: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	for _, file := range []string{"testdata/requests.txt", "testdata/answers.txt"} {
		for _, b := range read(f, file) {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for {
			msg, rest, err := Next(b)
			if err != nil || msg == nil {
				return
			}
			_, _ = ReadHello(msg)
			_, _ = ReadItem(msg)
			_, _ = ReadComparison(msg)
			b = rest
		}
	})
}

func read(t testing.TB, file string) map[string][]byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for line := range strings.Lines(string(b)) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		if out[name], err = hex.DecodeString(digits); err != nil {
			t.Fatalf("%s: %s: %v", file, name, err)
		}
	}
	return out
}
