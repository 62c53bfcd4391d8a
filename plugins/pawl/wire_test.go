package main

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

var update = flag.Bool("update", false, "write the requests of the receiver's testdata/requests.txt anew")

const vectors = "../../internal/relay/wire/testdata/"

func TestRequestsAreTheVectorsThatTheReceiverReads(t *testing.T) {
	prefix, sum := []byte{0xab}, bytes.Repeat([]byte{7}, 16)
	got := []struct {
		name  string
		bytes []byte
	}{
		{"hello", appendHello(nil, &hello{sender: "edge-1", epoch: "e"})},
		{"hello-full", appendHello(nil, &hello{sender: "edge-1", epoch: "e", processed: true, ticket: "t", sink: "web", prefix: "p/",
			conflict: "report-only", deletion: "retain", millis: 500, from: "up"})},
		{"put", appendItem(nil, &item{kind: put, key: "web/a", number: 300, payload: bytes.Repeat([]byte("x"), 200)})},
		{"put-empty", appendItem(nil, &item{kind: put, key: "web/ä", number: 1})},
		{"delete", appendItem(nil, &item{kind: remove, key: "web/a", number: 1 << 40})},
		{"look", appendItem(nil, &item{kind: look, key: "web/a", number: 2, hash: bytes.Repeat([]byte{9}, 32)})},
		{"comparison", appendComparison(nil, &pawl.Comparison{
			Nodes:  []pawl.CompareNode{{Count: 3, Digest: sum}, {Prefix: prefix, Digest: make([]byte, 16)}},
			Leaves: []pawl.CompareLeaf{{Prefix: prefix, Items: []pawl.CompareItem{{Key: bytes.Repeat([]byte{0xab}, 16), Content: sum}}}, {}},
		})},
	}
	if *update {
		var b strings.Builder
		for _, v := range got {
			fmt.Fprintf(&b, "%s %x\n", v.name, v.bytes)
		}
		if err := os.WriteFile(vectors+"requests.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := readVectors(t, "requests.txt")
	for _, v := range got {
		if !bytes.Equal(v.bytes, want[v.name]) {
			t.Errorf("%s: %x, want %x", v.name, v.bytes, want[v.name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d requests are tested, and the file has %d", len(got), len(want))
	}
}

func TestAnswersAreReadFromTheReceiversVectors(t *testing.T) {
	hash := bytes.Repeat([]byte{9}, 32)
	want := map[string]any{
		"welcome":          welcome{state: present},
		"welcome-begin":    welcome{state: begin, ticket: "t", message: "m"},
		"result":           result{outcome: done},
		"result-full":      result{outcome: waiting, message: strings.Repeat("m", 200), millis: 1000, ref: "web/a", hash: hash},
		"difference":       difference{nodes: [][]byte{{}, {1, 2}}, items: hash, extra: []string{"web/a", "web/ä"}},
		"difference-empty": difference{},
	}
	all := readVectors(t, "answers.txt")
	for name, b := range all {
		msg, rest, err := next(b)
		if err != nil || len(rest) > 0 {
			t.Errorf("%s: no one message: %v", name, err)
			continue
		}
		var got any
		switch want[name].(type) {
		case welcome:
			got, err = readWelcome(msg)
		case result:
			got, err = readResult(msg)
		case difference:
			got, err = readDifference(msg)
		}
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want[name]) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", name, err, got, want[name])
		}
		for n := range b {
			if _, _, err := next(b[:n]); err == nil {
				t.Errorf("%s cut to %d bytes is a message", name, n)
			}
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d answers are tested, and the file has %d", len(want), len(all))
	}
}

func readVectors(t *testing.T, file string) map[string][]byte {
	t.Helper()
	b, err := os.ReadFile(vectors + file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for line := range strings.Lines(string(b)) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		if out[name], err = hex.DecodeString(digits); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestAPutIsNoLargerThanItsBound(t *testing.T) {
	for _, n := range []int{0, 1, 200, 1024, 1 << 20, maxBodyBytes} {
		it := &item{kind: put, key: strings.Repeat("k", 1024), number: 1<<64 - 1, payload: make([]byte, n)}
		if got, most := len(appendItem(nil, it)), maxPut+len(it.key)+n; got > most {
			t.Errorf("a put of %d bytes takes %d in a request, and %d were counted", n, got, most)
		}
	}
}
