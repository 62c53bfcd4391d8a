package buildcache

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func TestBuiltOnceByWhoeverComesFirst(t *testing.T) {
	base := t.TempDir()
	var builds atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			dir, err := dirIn(base, "thing", []byte("v1"), func(dir string) error {
				builds.Add(1)
				return os.WriteFile(filepath.Join(dir, "out"), []byte("x"), 0o600)
			})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(filepath.Join(dir, "out")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := builds.Load(); n != 1 {
		t.Errorf("built %d times", n)
	}
	if _, err := dirIn(base, "thing", []byte("v2"), func(string) error { builds.Add(1); return nil }); err != nil || builds.Load() != 2 {
		t.Errorf("another key: %d builds, %v", builds.Load(), err)
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	base := t.TempDir()
	broken := errors.New("broken")
	if _, err := dirIn(base, "thing", nil, func(string) error { return broken }); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	left, err := filepath.Glob(filepath.Join(base, "*"))
	if err != nil || len(left) != 1 || filepath.Ext(left[0]) != ".lock" {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := dirIn(base, "thing", nil, func(string) error { return nil }); err != nil {
		t.Errorf("the next build: %v", err)
	}
}
