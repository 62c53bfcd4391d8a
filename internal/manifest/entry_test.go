package manifest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// shown writes entries one a line: place, key or object, payload, what is wrong.
func shown(entries []Entry) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%d %s/%s %s%s", e.Line, e.Key.Sink, e.Key.Name, e.Payload, e.Object)
		if e.Wrong != nil {
			fmt.Fprintf(&b, " WRONG %v", strings.ReplaceAll(e.Wrong.Error(), "\n", " | "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestOneBadDocumentSpoilsNoOther(t *testing.T) {
	const good = "sink: web\nkey: %s\npayload: 1\n"
	a, c := fmt.Sprintf(good, "a"), "---\n"+fmt.Sprintf(good, "c")
	for _, x := range []struct{ name, file, content, want string }{
		{"no yaml", "f.yaml", a + "---\nsink: web\nkey: b\npayload: {\n" + c,
			"1 web/a 1\n7 web/b  WRONG f.yaml:7: this is no YAML: did not find expected node content\n9 web/c 1\n"},
		{"a tab, and the key is in quotes with a comment", "f.yaml", a + "---\nsink: web # here\nkey: \"b\"\npayload:\n\tx: 1\n" + c,
			"1 web/a 1\n8 web/b  WRONG f.yaml:8: this is no YAML: found character that cannot start any token\n10 web/c 1\n"},
		{"a misspelt field", "f.yaml", a + "---\nsink: web\nkey: b\npaylod: 1\n" + c,
			"1 web/a 1\n5 web/b  WRONG f.yaml:7: unknown field \"paylod\"; did you mean payload?\n9 web/c 1\n"},
		{"two values that JSON has not", "f.yaml", a + "---\nsink: web\nkey: b\npayload: .inf\nsuspend: 017\n" + c,
			"1 web/a 1\n5 web/b  WRONG f.yaml:7: JSON has no such number | f.yaml:8: a number with a 0 in front may mean eight-based digits (YAML 1.1) or not (1.2); put it in quotes, or write it without the 0\n10 web/c 1\n"},
		{"items of a list", "f.yaml", "- {sink: web, key: a, payload: 1}\n- {sink: web, key: b}\n- {sink: web, key: c, payload: 1}\n",
			"1 web/a 1\n2 web/b  WRONG f.yaml:2: the document has no payload; write payload, or delete: true to remove the resource; with direction: inbound there need be none\n3 web/c 1\n"},
		{"json", "f.json", "{\"sink\":\"web\",\"key\":\"a\",\"payload\":1}\n{\"sink\":\"web\",\"key\":\"b\"}\n{\"sink\":\"web\",\"key\":\"c\",\"payload\":1}",
			"1 web/a 1\n2 web/b  WRONG f.json:2: the document has no payload; write payload, or delete: true to remove the resource; with direction: inbound there need be none\n3 web/c 1\n"},
		{"json that is cut off: what is behind can't be known", "f.json", "{\"sink\":\"web\",\"key\":\"a\",\"payload\":1}\n{\"sink\":\"web\",\"key\":\"b\",",
			"1 web/a 1\n2 /  WRONG f.json:2: this is no JSON: unexpected EOF\n"},
	} {
		t.Run(x.name, func(t *testing.T) {
			if got := shown(Parse([]byte(x.content), x.file)); got != x.want {
				t.Errorf("got\n%s\nwant\n%s", got, x.want)
			}
		})
	}
}

func TestTheKeyOfABadDocumentIsNotGuessedWhereItIsUncertain(t *testing.T) {
	for name, content := range map[string]string{
		"two keys, as a merge leaves them": "sink: web\n<<<<<<< ours\nkey: a\n=======\nkey: b\n>>>>>>> theirs\npayload: 1\n",
		"a key that goes on":               "sink: web\nkey: a\n  b\npayload: {\n",
		"a key that is a number":           "sink: web\nkey: 12\npayload: {\n",
		"a key that is a block":            "sink: web\nkey: |\n  a\npayload: {\n",
		"a quote that is not closed":       "sink: web\nkey: \"a\npayload: {\n",
		"no sink":                          "key: a\npayload: {\n",
		"a key below something else":       "sink: web\npayload:\n  key: a\n  x: {\n",
		"the field key twice":              "sink: web\nkey: a\nkey: b\npayload: 1\n",
		"a sink that can be none":          "sink: Web\nkey: a\npayload: {\n",
	} {
		t.Run(name, func(t *testing.T) {
			entries := Parse([]byte(content), "f.yaml")
			if len(entries) != 1 || entries[0].Wrong == nil {
				t.Fatalf("got\n%swant one that is wrong", shown(entries))
			}
			if k := entries[0].Key; k.Sink != "" || k.Name != "" {
				t.Errorf("guessed %v", k)
			}
		})
	}
}

func TestAFileWithDirectivesIsReadAsOne(t *testing.T) {
	content := "%YAML 1.1\n---\nsink: web\nkey: a\npayload: 1\n...\n---\nsink: web\nkey: b\npayload: {\n"
	want := "3 web/a 1\n10 /  WRONG f.yaml:10: this is no YAML: did not find expected node content\n"
	got := Parse([]byte(content), "f.yaml")
	for i := range got { // two keys are in the text
		if got[i].Wrong != nil {
			got[i].Key.Sink, got[i].Key.Name = "", ""
		}
	}
	if shown(got) != want {
		t.Errorf("got\n%s\nwant\n%s", shown(got), want)
	}
}

func TestDocumentsArePartedAsYAMLSays(t *testing.T) {
	content := "# above\n--- {sink: web, key: a, payload: 1}\n---\nsink: web\nkey: b\npayload: |\n  ---\n  --- x\n---\r\nsink: web\r\nkey: c\r\npayload: ---x\r\n---\n# nothing\n---"
	want := "2 web/a 1\n4 web/b \"---\\n--- x\\n\"\n10 web/c \"---x\"\n"
	if got := shown(Parse([]byte(content), "f.yaml")); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestManifestsOfKubernetesAreToldAsSuch(t *testing.T) {
	for _, x := range []struct{ name, file, content, want string }{
		{"yaml", "f.yaml", "# hello\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: \"1\"}\n",
			`2 / {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1"}}` + "\n"},
		{"json stays byte for byte", "f.json", "\n{\"apiVersion\": \"v1\",\n\"kind\":\"ConfigMap\"}", "2 / {\"apiVersion\": \"v1\",\n\"kind\":\"ConfigMap\"}\n"},
		{"a list in yaml", "f.yaml", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: A\n- apiVersion: v1\n  kind: B\n",
			`4 / {"apiVersion":"v1","kind":"A"}` + "\n" + `6 / {"apiVersion":"v1","kind":"B"}` + "\n"},
		{"a list in json", "f.json", "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMapList\",\"items\":[\n{\"apiVersion\":\"v1\",\"kind\":\"A\"},\n{\"apiVersion\":\"v1\",\"kind\":\"B\"}]}",
			`2 / {"apiVersion":"v1","kind":"A"}` + "\n" + `3 / {"apiVersion":"v1","kind":"B"}` + "\n"},
		{"what of a bad one can be read", "f.yaml", "apiVersion: v1\nkind: A\nmetadata: {name: a}\ndata: 017\n",
			`1 / {"apiVersion":"v1","kind":"A","metadata":{"name":"a"}} WRONG f.yaml:4: a number with a 0 in front may mean eight-based digits (YAML 1.1) or not (1.2); put it in quotes, or write it without the 0` + "\n"},
		{"one with a kind twice", "f.yaml", "apiVersion: v1\nkind: A\nkind: B\n", `1 /  WRONG f.yaml:3: the field "kind" is there twice, first on line 2` + "\n"},
		{"with a sink it is a document like others", "f.yaml", "sink: web\napiVersion: v1\nkind: A\n",
			`1 /  WRONG f.yaml:2: unknown field "apiVersion"; there are sink, key, payload, payloadBase64, conflictPolicy, deletionPolicy, direction, retry, idempotencyKey, suspend, delete | f.yaml:3: unknown field "kind"; did you mean sink?` + "\n"},
	} {
		t.Run(x.name, func(t *testing.T) {
			if got := shown(Parse([]byte(x.content), x.file)); got != x.want {
				t.Errorf("got\n%s\nwant\n%s", got, x.want)
			}
		})
	}
	_, err := Read(strings.NewReader("apiVersion: v1\nkind: A\n"), "f.yaml")
	if want := "f.yaml:1: this is a manifest of Kubernetes; make it the payload of a document with sink and key; a source of kind dir takes it as it is"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func FuzzAnEntryIsWholeOrSaysWhatIsWrong(f *testing.F) {
	f.Add([]byte("sink: web\nkey: a\npayload: 1\n---\nsink: [\n---\napiVersion: v1\nkind: List\nitems: [{}]\n"))
	f.Add([]byte("{\"sink\":\"web\",\"key\":\"a\",\"payload\":1}{"))
	f.Add([]byte("%YAML 1.1\n---\na: 1\n...\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, name := range []string{"f.yaml", "f.json"} {
			for _, e := range Parse(content, name) {
				if e.Wrong == nil && e.Object == nil && e.Key.Validate() != nil {
					t.Errorf("accepted the key %q", e.Key)
				}
				if e.Key.Sink != "" && e.Key.Validate() != nil {
					t.Errorf("told the key %q", e.Key)
				}
				if e.Line > 1+bytes.Count(content, []byte("\n"))+1 {
					t.Errorf("line %d is behind the end", e.Line)
				}
			}
		}
	})
}
