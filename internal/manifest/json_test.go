package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestNothingThatWasReadRefersToTheContent(t *testing.T) {
	object := `{"apiVersion":"v1","kind":"A","data":"x"}`
	for name, content := range map[string]string{
		"document": `{"sink":"web","key":"a","payload":{"x":"y"},"conflictPolicy":"report-only"}`, "wrong": `{"sink":"web","key":"b","nope":1}`,
		"bytes": `{"sink":"web","key":"a","payloadBase64":"YWJj"}`, "object": object, "list": `{"apiVersion":"v1","kind":"List","items":[` + object + `]}`,
		"yaml": "sink: web\nkey: a\npayload: {x: y}\n---\napiVersion: v1\nkind: A\n",
	} {
		t.Run(name, func(t *testing.T) {
			used := []byte(content)
			got, want := Parse(used, "f"), shown(Parse([]byte(content), "f"))
			for i := range used {
				used[i] = '#'
			}
			if shown(got) != want {
				t.Errorf("after the content was overwritten:\n%s\nwant\n%s", shown(got), want)
			}
		})
	}
}

func TestOfAJSONValueThatIsCutOffNothingIsTaken(t *testing.T) {
	const a, b = `{"sink":"web","key":"a","payload":1}`, `{"sink":"web","key":"b","payload":1}`
	want := "1 web/a 1\n3 /  WRONG f.json:3: this is no JSON: invalid character 'x' looking for beginning of value\n"
	if got := shown(Parse([]byte(a+"\n["+b+",\nx]"), "f.json")); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLinesAreRightInListsOfLists(t *testing.T) {
	list := func(items string) string {
		return "{\"apiVersion\":\"v1\",\n\"items\":[\n" + items + "],\n\"kind\":\"List\"\n}"
	}
	content := "[\n" + list(list(`{"apiVersion":"v1","kind":"A"}`)+",\n"+`{"apiVersion":"v1","kind":"B"}`) + ",\n12]"
	want := "6 / {\"apiVersion\":\"v1\",\"kind\":\"A\"}\n9 / {\"apiVersion\":\"v1\",\"kind\":\"B\"}\n" +
		"12 /  WRONG f.json:12: a document must be an object with sink, key and payload, but it is the number 12\n"
	if got := shown(Parse([]byte(content), "f.json")); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// FuzzJSONIsWhatEncodingJSONTakesForIt compares with encoding/json, whose words are told.
func FuzzJSONIsWhatEncodingJSONTakesForIt(f *testing.F) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, s := range []string{
		"", " ", "{} {}", "{}{}", "[1,2]", "[1,]", "{\"a\":1,\"a\":2}", "{\"a\":{\"b\":1,\"b\":1}}", "\"\xff\"", "{\"\xff\":1}", `"\ud800"`, `"\ud800\u0041"`,
		"01", "-", "1.", "1e5", "1 2", "12true", "nul", "{\"a\"}", "{1:2}", "[", "{", "\"a", "\"\n\"", "]", "{\"a\":[}", "{}x", "\ufeff{}", "\x00", deep(9_999), deep(10_001),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		entries, ok := parseJSON(content, "f.json")
		dec := json.NewDecoder(bytes.NewReader(content))
		for {
			var v json.RawMessage
			err := dec.Decode(&v)
			if err == nil {
				continue
			}
			if ok != errors.Is(err, io.EOF) {
				t.Fatalf("%q: taken %t, but encoding/json says: %v", content, ok, err)
			}
			if !ok && entries[len(entries)-1].Wrong[0].What != fmt.Sprint("this is no JSON: ", err) {
				t.Errorf("%q: told %v, want %v", content, entries[len(entries)-1].Wrong, err)
			}
			return
		}
	})
}
