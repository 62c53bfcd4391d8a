package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// dirChildEnv hands a child its work, a dirWork as JSON. Each measurement runs in a
// process of its own, so that one's memory is not the other's.
const dirChildEnv = "PAWL_BENCH_DIR"

// dirWork is what a child does.
type dirWork struct {
	What      string // "source", "peer" or "store"
	Kind      string // of dirKinds
	Documents int
	PerFile   int
	Tree      string // where the documents are
	Dir       string // for the store
}

// dirResult is what a child prints.
type dirResult struct {
	Took          time.Duration // from the start to all stored
	Used          time.Duration // of the processors, meanwhile
	Again         time.Duration // processor time of a rescan, in which nothing changed
	PeakAnonymous int64
}

// dirKinds are the documents, of 1 KiB each.
var dirKinds = []struct {
	name, ext, what string
	document        func(n int) string
}{
	{"fields", "yaml", "YAML with 28 fields", func(n int) string { return yamlDocument(n, yamlFields(n)) }},
	{"text", "yaml", "YAML with one long text", func(n int) string { return yamlDocument(n, "  n: "+strconv.Itoa(n)+"\n  text: "+filler[:950]+"\n") }},
	{"json", "json", "JSON with 28 fields", jsonDocument},
}

func yamlDocument(n int, payload string) string {
	return "---\nsink: " + sinkName + "\nkey: " + key(n).Name + "\npayload:\n" + payload
}

func yamlFields(n int) string {
	var b strings.Builder
	for i := range 4 {
		fmt.Fprintf(&b, "  part%d:\n    name: part-%d-of-%d\n    count: %d\n    enabled: true\n    labels:\n      app: shop\n      tier: backend\n      owner: team-%d\n    text: %s\n", i, i, n, n+i, n%100, filler[i:120])
	}
	return b.String()
}

func jsonDocument(n int) string {
	var parts []string
	for i := range 4 {
		parts = append(parts, fmt.Sprintf(`"part%d": {"name": "part-%d-of-%d", "count": %d, "enabled": true, "labels": {"app": "shop", "tier": "backend", "owner": "team-%d"}, "text": %q}`, i, i, n, n+i, n%100, filler[i:125]))
	}
	return fmt.Sprintf(`{"sink": %q, "key": %q, "payload": {%s}}`+"\n", sinkName, key(n).Name, strings.Join(parts, ", "))
}

// benchDir measures a source of kind dir from its start until all is stored, beside a
// program that reads, parses and puts the same in the plainest way, and beside the store
// alone, which is given the same payloads.
func benchDir(r *report) error {
	n, rounds := 100_000, 3
	if r.short {
		n, rounds = 20_000, 1
	}
	for _, kind := range dirKinds {
		for _, perFile := range []int{100, 1} {
			tree := filepath.Join(r.dir, fmt.Sprint(kind.name, perFile))
			if err := writeTree(tree, kind.ext, n, perFile, kind.document); err != nil {
				return err
			}
			results := map[string][]dirResult{}
			for range rounds {
				for _, what := range []string{"source", "peer", "store"} {
					res, err := runDir(dirWork{what, kind.name, n, perFile, tree, filepath.Join(r.dir, "store")})
					if err != nil {
						return err
					}
					results[what] = append(results[what], res)
				}
			}
			r.dirRow(fmt.Sprintf("%s, %d a file", kind.what, perFile), n, results)
			if err := os.RemoveAll(tree); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *report) dirRow(what string, n int, results map[string][]dirResult) {
	rate, used, memory := map[string]sample{}, map[string]sample{}, map[string]sample{}
	var again sample
	for name, all := range results {
		for _, res := range all {
			rate[name] = append(rate[name], float64(n)/res.Took.Seconds())
			used[name] = append(used[name], float64(res.Used.Microseconds())/float64(n))
			memory[name] = append(memory[name], float64(res.PeakAnonymous)/(1<<20))
			if name == "source" {
				again = append(again, res.Again.Seconds())
			}
		}
	}
	r.line("%s: %v documents a second; a plain program %v, the store alone %v", what, rate["source"], rate["peer"], rate["store"])
	r.line("µs of the processors a document: %v; a plain program %v, the store alone %v", used["source"], used["peer"], used["store"])
	r.line("source ÷ plain program %v; a rescan takes %v s of the processors", rate["source"].over(rate["peer"]), again)
	r.atLeast(what+": documents", rate["source"].median(), 20_000, "/s")
	r.under(what+": memory above the store's", memory["source"].median()-memory["store"].median(), 200, " MiB")
}

// writeTree writes n documents, a hundred files to a directory.
func writeTree(tree, ext string, n, perFile int, document func(int) string) error {
	for i := 0; i < n; i += perFile {
		file := i / perFile
		dir := filepath.Join(tree, fmt.Sprintf("d%04d", file/100))
		if file%100 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		var b strings.Builder
		for j := i; j < min(i+perFile, n); j++ {
			b.WriteString(document(j))
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%06d.%s", file, ext)), []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func runDir(w dirWork) (res dirResult, err error) {
	if err := os.RemoveAll(w.Dir); err != nil {
		return res, err
	}
	work, err := json.Marshal(w)
	if err != nil {
		return res, err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), dirChildEnv+"="+string(work))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return res, fmt.Errorf("%s of %s: %w", w.What, w.Kind, err)
	}
	return res, json.Unmarshal(out, &res)
}
