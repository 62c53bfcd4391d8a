package dir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOneBadDocumentAmongManyIsToldWithFileAndLineAndBlocksItselfAlone(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	var all []string
	for i := range 100 {
		all = append(all, fmt.Sprintf("k%d=1", i))
	}
	write(t, root, "sub/many.yaml", docs(all...))
	write(t, root, "other.yaml", doc("o", "1"))
	run(t, root, d, nil)
	d.wants(append(all, "o=1")...)

	broken := strings.Replace(docs(all...), "key: k50\npayload: 1", "key: k50\npayload: {", 1)
	broken = strings.Replace(broken, "key: k99\npayload: 1", "key: k99\npayload: 2", 1)
	write(t, root, "sub/many.yaml", broken)
	d.says("web/k50", "sub/many.yaml:203 this is no YAML")
	all[99] = "k99=2"
	d.wants(append(all, "o=1")...) // what is behind it goes on
	if len(d.problems) != 1 {
		t.Errorf("problems: %v", d.problems)
	}

	write(t, root, "sub/many.yaml", docs(all...))
	d.well()
	d.neverDeleted(t)
}

func TestTheResourceOfABadDocumentOutlivesARestart(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", docs("a=1", "b=1", "c=1"))
	_, stop := run(t, root, d, nil)
	stop()
	write(t, root, "a.yaml", docs("a=1", "b={"))
	run(t, root, d, nil)
	d.says("web/b", "a.yaml:7 this is no YAML")
	d.wants("a=1", "b=1") // c was removed, and is gone: b alone could not be read
	d.neverDeleted(t, "a", "b")
}

func TestWhereNoKeyCanBeReadAllThatTheFileHadIsKept(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.json", `[{"sink":"web","key":"a","payload":1},{"sink":"web","key":"b","payload":1}]`)
	write(t, root, "b.yaml", doc("c", "1"))
	_, stop := run(t, root, d, nil)
	write(t, root, "a.json", `[{"sink":"web","key":"a","payload":2},{"sink":"web",`)
	d.says("web/a", "a.json:1 this is no JSON: unexpected EOF")
	d.says("web/b", "a.json:1 this is no JSON: unexpected EOF")
	must(t, os.Remove(filepath.Join(root, "b.yaml"))) // of another file something can go
	d.wants("a=1", "b=1")

	// After a restart nobody knows what it had, and nothing goes,
	stop()
	write(t, root, "b.yaml", doc("d", "1"))
	run(t, root, d, nil)
	d.says("a.json:1", "this is no JSON")
	d.wants("a=1", "b=1", "d=1")
	d.neverDeleted(t, "a", "b")
	// until it is right again.
	write(t, root, "a.json", `{"sink":"web","key":"a","payload":2}`)
	d.wants("a=2", "d=1")
	d.well()
}

func TestAMistakeThatIsMovedOrRemovedStandsNoMore(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", docs("a=1", "b={"))
	write(t, root, "c.json", "{")
	run(t, root, d, nil)
	d.says("web/b", "a.yaml:7")
	d.says("c.json:1", "this is no JSON")
	write(t, root, "a.yaml", "# a line more\n"+docs("a=1", "b={"))
	d.says("web/b", "a.yaml:8")
	write(t, root, "c.json", "\n{")
	d.says("c.json:2", "this is no JSON")
	write(t, root, "a.yaml", doc("a", "1"))
	must(t, os.Remove(filepath.Join(root, "c.json")))
	d.well()
	d.wants("a=1")
}

func TestMistakesSayWhatToDo(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "a.yaml", "sink: web\nkey: a\ndelete: true\n")
	write(t, root, "b.yaml", "sink: web\nkey: b\npaylod: 1\nsuspent: true\n")
	write(t, root, "d.yaml", "sink: web\nkey: d\npayload: 1\ndelete: true\n")
	write(t, root, "e.yaml", "sink: web\nkey: e\n")
	write(t, root, "c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n")
	run(t, root, d, nil)
	d.says("web/a", "a.yaml:1 delete: true means nothing in a source; remove the document, and its resource goes")
	d.says("web/d", "d.yaml:1 delete: true means nothing in a source; remove the document, and its resource goes")
	d.says("web/e", "e.yaml:1 the document has no payload; write payload, or remove the document if the resource is to go;")
	d.says("web/b", "b.yaml:3 unknown field \"paylod\"; did you mean payload?; b.yaml:4: unknown field \"suspent\"; did you mean suspend?")
	d.says("c.yaml:1", "this is a manifest of Kubernetes, and the source says for no sink; set its dir.kubernetes.sink")
}

func TestMistakesTellNoPayloads(t *testing.T) {
	const secret = "0667788"
	root, d := t.TempDir(), newDesk(t)
	for i, payload := range []string{secret, "!!bool x" + secret, "!!float y" + secret, "{p: " + secret + ", q: [" + secret, "\"" + secret + "\\q\"", "*a" + secret, "{a: " + secret + ", a: " + secret + "}"} {
		write(t, root, fmt.Sprintf("%d.yaml", i), doc(fmt.Sprintf("k%d", i), payload))
	}
	write(t, root, "a.json", `{"sink":"web","key":"j","payload":"`+secret+"\n\"}")
	write(t, root, "b.json", `{"sink":"web","key":"l","payloadBase64":"`+secret+`!"}`)
	run(t, root, d, nil)
	d.await(func() bool { return len(d.problems) == 9 })
	for at, says := range d.problems {
		if strings.Contains(says, secret) {
			t.Errorf("%s tells the payload: %s", at, says)
		}
	}
}
