package cli

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/server"
	"github.com/pawlsync/pawl/internal/source"
	"github.com/pawlsync/pawl/internal/source/dir"
)

var seedFlag = flag.Uint64("seed", 0, "seed of random choices; 0: a new one each time")

// names are all that a random tree may have, as keys at the target.
const names = 12

func nameOf(n int) string {
	if n%4 == 3 {
		return fmt.Sprintf("ConfigMap/k%d", n)
	}
	return fmt.Sprintf("k%d", n)
}

// randomTree writes documents and manifests, some of them bad, ignored or excluded.
func randomTree(t *testing.T, r *rand.Rand) (folder string) {
	t.Helper()
	folder = t.TempDir()
	writeOld(t, folder, ".pawlignore", "old-*\n")
	writeDocument(t, folder, "always", "payload: 1") // an empty set would be held
	for n := range names {
		content := fmt.Sprintf("sink: web\nkey: %s\npayload: {name: %d}\n", nameOf(n), r.IntN(2))
		if n%4 == 3 {
			content = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: k%d}\nname: %d\n", n, r.IntN(2))
		}
		switch where := fmt.Sprintf("%d.yaml", n); r.IntN(9) {
		case 0: // it is not there
		case 1:
			writeOld(t, folder, "old-"+where, content)
		case 2:
			writeOld(t, folder, "drafts/"+where, content)
		case 3: // its key can be read, and it is bad
			writeOld(t, folder, where, fmt.Sprintf("sink: web\nkey: %s\npaylod: 1\n", nameOf(n)))
		default:
			writeOld(t, folder, "team/"+where, content)
		}
	}
	if r.IntN(4) == 0 {
		writeOld(t, folder, "cut.json", `{"sink":"web",`)
	}
	return folder
}

// runSource runs the source files of a folder until it has told all and the targets
// have it.
func runSource(t *testing.T, e *engine.Engine, folder string, deletion record.DeletionPolicy) *source.Manager {
	t.Helper()
	src, err := dir.New(dir.Options{Path: folder, Exclude: []string{"drafts"}, Settle: time.Millisecond,
		Kubernetes: &dir.Kubernetes{Sink: "web", Key: "{{.kind}}/{{.name}}"}})
	if err != nil {
		t.Fatal(err)
	}
	m := source.New(source.Options{Engine: e, Sources: []source.Spec{{
		Name: "files", Kind: "dir", Source: src, Deletion: deletion, Fuse: source.FuseOptions{Window: time.Hour, Share: 1, AtLeast: names},
	}}})
	m.Start()
	t.Cleanup(m.Close)
	for {
		st, err := m.Status(t.Context(), "files", 0)
		if err != nil {
			t.Fatal(err)
		}
		if !st.FullAt.IsZero() {
			break
		}
		time.Sleep(time.Millisecond) // nothing tells of it
	}
	for n := range names {
		if _, err := e.Wait(t.Context(), record.Key{Sink: "web", Name: nameOf(n)}, 0); err != nil && !errors.Is(err, engine.ErrNotFound) {
			t.Fatal(err)
		}
	}
	return m
}

func (s *shelf) has() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects)
}

func TestWhatAPlanOfASourceSaysIsWhatTheSourceThenDoes(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("run again with -seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 12 {
		deletion := record.DeleteTarget
		if round%4 == 3 {
			deletion = record.Retain
		}
		web, e := shelfEngine(t, nil)
		m := runSource(t, e, randomTree(t, r), deletion)
		next := randomTree(t, r)
		stdout, stderr, _ := run(t, serveShelves(t, server.Options{Engine: e, Sources: m}), "", "plan", "--source", "files", "-f", next, "-o", "json")
		var plan struct{ Items []planItem }
		if err := json.Unmarshal([]byte(stdout), &plan); err != nil {
			t.Fatalf("%v\n%s%s", err, stdout, stderr)
		}
		says := map[string]string{}
		for _, it := range plan.Items {
			if it.Difference != nil && it.Action != api.ActionNone {
				says[it.Key] = it.Action
			}
		}
		before := web.has()
		m.Close()
		runSource(t, e, next, deletion)
		after, did := web.has(), map[string]string{}
		for key, content := range after {
			if was, there := before[key]; !there {
				did[key] = api.ActionCreate
			} else if was != content {
				did[key] = api.ActionUpdate
			}
		}
		for key := range before {
			if _, there := after[key]; !there {
				did[key] = api.ActionDelete
			}
		}
		if !maps.Equal(says, did) {
			t.Errorf("round %d: the plan says %v, and the source did %v\n%s", round, says, did, stderr)
		}
	}
}
