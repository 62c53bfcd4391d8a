package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
)

func TestReadsDocuments(t *testing.T) {
	alice := record.Key{Sink: "web", Name: "users/alice"}
	for _, c := range []struct {
		name, file, content string
		want                []Document
	}{
		{"yaml keeps the order of keys and numbers as written", "a.yaml",
			"# hello\n---\nsink: web\nkey: users/alice\npayload:\n  z: 12345678901234567890123\n  a: [1.50, ~, yes, 2024-01-02, 0x1f, .5, \"1\", <b>]\n---\n",
			[]Document{{File: "a.yaml", Line: 3, Key: alice, Payload: []byte(`{"z":12345678901234567890123,"a":[1.50,null,"yes","2024-01-02",31,0.5,"1","<b>"]}`)}}},
		{"json stays byte for byte", "-", "\n{\"sink\":\"web\",\"key\":\"users/alice\",\"payload\": {\"b\" : 1.0, \"a\":\"\\u00e4\\/\"} }",
			[]Document{{File: "-", Line: 2, Key: alice, Payload: []byte(`{"b" : 1.0, "a":"\u00e4\/"}`)}}},
		{"json values one after the other, and lists", "a.json", "{\"sink\":\"web\",\"key\":\"a\",\"payload\":1}\n[\n{\"sink\":\"web\",\"key\":\"b\",\"delete\":true}]",
			[]Document{{File: "a.json", Line: 1, Key: record.Key{Sink: "web", Name: "a"}, Payload: []byte("1")},
				{File: "a.json", Line: 3, Key: record.Key{Sink: "web", Name: "b"}, Delete: true}}},
		{"yaml in flow style is no json", "-", "{sink: web, key: a, payload: {b: c}}",
			[]Document{{File: "-", Line: 1, Key: record.Key{Sink: "web", Name: "a"}, Payload: []byte(`{"b":"c"}`)}}},
		{"policies, suspension, bytes", "a.yaml", "sink: web\nkey: a\npayloadBase64: AAH/\nconflictPolicy: report-only\ndeletionPolicy: retain\nsuspend: true\n",
			[]Document{{File: "a.yaml", Line: 1, Key: record.Key{Sink: "web", Name: "a"}, Payload: []byte{0, 1, 255}, Binary: true,
				Conflict: record.ReportOnly, Deletion: record.Retain, Suspend: true}}},
		{"an alias stands for its value", "a.yaml", "sink: web\nkey: a\npayload: {x: &v [1], y: *v}\n",
			[]Document{{File: "a.yaml", Line: 1, Key: record.Key{Sink: "web", Name: "a"}, Payload: []byte(`{"x":[1],"y":[1]}`)}}},
		{"keys become strings", "a.yaml", "sink: web\nkey: a\npayload: {1: a, true: b, 0: c}\n",
			[]Document{{File: "a.yaml", Line: 1, Key: record.Key{Sink: "web", Name: "a"}, Payload: []byte(`{"1":"a","true":"b","0":"c"}`)}}},
		{"an inbound one needs no payload", "a.yaml", "sink: web\nkey: a\ndirection: inbound\n",
			[]Document{{File: "a.yaml", Line: 1, Key: record.Key{Sink: "web", Name: "a"}, Direction: record.Inbound, Payload: []byte(`null`)}}},
		{"nothing", "a.yaml", "# only a comment\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read(strings.NewReader(c.content), c.file)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got\n%+v, want\n%+v", got, c.want)
			}
		})
	}
}

func TestSaysWhatIsWrongAndWhere(t *testing.T) {
	for _, c := range []struct{ name, file, content, want string }{
		{"a misspelt field", "a.yaml", "sink: web\nkey: a\npaylod: 1\n", `a.yaml:3: unknown field "paylod"; did you mean payload?`},
		{"a misspelt field in json", "a.json", "{\n\"sink\":\"web\",\n\"kee\":\"a\"}", `a.json:3: unknown field "kee"; did you mean key?`},
		{"a strange field", "a.yaml", "apiVersion: v1\n", `a.yaml:1: unknown field "apiVersion"; there are sink, key, payload, payloadBase64, conflictPolicy, deletionPolicy, direction, retry, idempotencyKey, suspend, delete`},
		{"no payload", "a.yaml", "---\nsink: web\nkey: a\n", "a.yaml:2: the document has no payload; write payload, or delete: true to remove the resource; with direction: inbound there need be none"},
		{"no payload for both directions", "a.yaml", "sink: web\nkey: a\ndirection: both\n", "a.yaml:1: the document has no payload; write payload, or delete: true to remove the resource; with direction: inbound there need be none"},
		{"no key", "a.yaml", "sink: web\npayload: 1\n", "a.yaml:1: the document has no key"},
		{"a bad sink", "a.yaml", "sink: Web\nkey: a\npayload: 1\n", `a.yaml:2: the sink's name "Web" may hold lower-case letters, digits and hyphens only, and starts with none of the last`},
		{"a number as key", "a.yaml", "sink: web\nkey: 12\npayload: 1\n", "a.yaml:2: key must be a string, but it is the number 12; write it in quotes"},
		{"a misspelt policy", "a.yaml", "sink: web\nkey: a\npayload: 1\nconflictPolicy: source-win\n", `a.yaml:4: unknown conflictPolicy "source-win"; did you mean source-wins?`},
		{"delete with a payload", "a.yaml", "sink: web\nkey: a\npayload: 1\ndelete: true\n", "a.yaml:4: a document with delete: true has no payload, conflictPolicy, direction, retry, idempotencyKey and suspend; leave them out, or take delete away"},
		{"delete with a direction", "a.yaml", "sink: web\nkey: a\ndirection: both\ndelete: true\n", "a.yaml:4: a document with delete: true has no payload, conflictPolicy, direction, retry, idempotencyKey and suspend; leave them out, or take delete away"},
		{"an unknown direction", "a.yaml", "sink: web\nkey: a\npayload: 1\ndirection: sideways\n", "a.yaml:4: unknown direction \"sideways\"; use outbound, inbound, both"},
		{"both payloads", "a.yaml", "sink: web\nkey: a\npayload: 1\npayloadBase64: AA==\n", "a.yaml:4: the document has both payload and payloadBase64; keep one"},
		{"no base64", "a.yaml", "sink: web\nkey: a\npayloadBase64: \"!\"\n", "a.yaml:3: payloadBase64 is no base64: illegal base64 data at input byte 0; use the standard alphabet with padding"},
		{"a field twice", "a.json", "{\"sink\":\"web\",\n\"sink\":\"web\"}", `a.json:2: the field "sink" is there twice, first on line 1`},
		{"a payload key twice", "a.yaml", "sink: web\nkey: a\npayload:\n  x: 1\n  x: 2\n", `a.yaml:5: the key "x" is there twice`},
		{"an anchor in itself", "a.yaml", "sink: web\nkey: a\npayload: {x: &v [1, *v]}\n", `a.yaml:3: the anchor "v" holds itself`},
		{"one of many payload keys twice", "a.yaml", "sink: web\nkey: a\npayload:\n" + manyKeys(20) + "  k3: 1\n", `a.yaml:24: the key "k3" is there twice`},
		{"a number with a 0 in front", "a.yaml", "sink: web\nkey: a\npayload:\n  mode: 017\n", "a.yaml:4: a number with a 0 in front may mean eight-based digits (YAML 1.1) or not (1.2); put it in quotes, or write it without the 0"},
		{"infinity", "a.yaml", "sink: web\nkey: a\npayload: .inf\n", "a.yaml:3: JSON has no such number"},
		{"a merge", "a.yaml", "sink: web\nkey: a\npayload:\n  x: &x {y: 1}\n  z:\n    <<: *x\n", "a.yaml:6: merge keys (<<) are not supported; use an alias for the whole value"},
		{"broken json", "a.json", "{\"sink\":\n\"web\",}", "a.json:2: this is no JSON: invalid character '}' looking for beginning of object key string"},
		{"cut json", "a.json", "{\"sink\":\n\"web\"", "a.json:2: this is no JSON: unexpected EOF"},
		{"broken yaml", "a.yaml", "sink: web\n\tkey: a\n", "a.yaml:2: this is no YAML: found a tab character that violates indentation"},
		{"a tag that lies", "a.yaml", "sink: web\nkey: a\npayload: !!bool yes\n", `a.yaml:3: this is no truth value; write true or false`},
		{"no mapping", "a.yaml", "- 1\n", "a.yaml:1: a document must be a mapping with sink, key and payload"},
		{"no object", "a.json", "[\n12]", "a.json:2: a document must be an object with sink, key and payload, but it is the number 12"},
		{"all at once", "a.yaml", "sinc: web\n---\nsink: web\nkeys: a\n", "a.yaml:1: unknown field \"sinc\"; did you mean sink?\na.yaml:4: unknown field \"keys\"; did you mean key?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(c.content), c.file)
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%v is not ErrInvalid", err)
			}
		})
	}
}

// manyKeys are lines of a mapping, each with a key of its own.
func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  k%d: 1\n", i)
	}
	return b.String()
}

func TestAliasesCantGrowWithoutBound(t *testing.T) {
	var b strings.Builder
	b.WriteString("sink: web\nkey: a\npayload:\n  a0: &a0 " + strings.Repeat("x", 1000) + "\n")
	for i := 1; i < 12; i++ {
		prev := "*a" + string(rune('0'+(i-1)%10))
		b.WriteString("  b" + strings.Repeat("i", i) + ": &a" + string(rune('0'+i%10)) + " [" + strings.Repeat(prev+",", 9) + prev + "]\n")
	}
	_, err := Read(strings.NewReader(b.String()), "bomb.yaml")
	if err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("got %v, want an error about 64 MiB", err)
	}
}

func TestReadsAFolder(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"b.yaml": "sink: web\nkey: b\npayload: 1\n", "sub/a.json": `{"sink":"web","key":"a","payload":1}`,
		"notes.txt": "no", ".hidden.yaml": "no: no", ".git/x.yaml": "no: no",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	docs, err := ReadPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, d := range docs {
		keys = append(keys, d.Key.Name)
	}
	if want := []string{"b", "a"}; !reflect.DeepEqual(keys, want) {
		t.Errorf("keys %v, want %v", keys, want)
	}
	if _, err := ReadPath(t.TempDir()); !errors.Is(err, ErrInvalid) {
		t.Errorf("an empty folder: %v, want ErrInvalid", err)
	}
}

func FuzzReadNeverPanics(f *testing.F) {
	f.Add("sink: web\nkey: a\npayload: {x: &v [1], y: *v}\n")
	f.Add(`{"sink":"web","key":"a","payload":1}`)
	f.Fuzz(func(t *testing.T, content string) {
		for _, name := range []string{"-", "a.json"} {
			docs, err := Read(strings.NewReader(content), name)
			for _, d := range docs {
				if err == nil && d.Key.Validate() != nil {
					t.Errorf("accepted the key %q", d.Key)
				}
				if err == nil && !d.Delete && !d.Binary && !json.Valid(d.Payload) {
					t.Errorf("the payload %q is no JSON", d.Payload)
				}
			}
		}
	})
}
