package badger

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// The test binary runs itself as the process that is killed.
const childEnv = "PAWL_STORE_CHILD"

func TestMain(m *testing.M) {
	switch dir := os.Getenv(childEnv + "_DIR"); os.Getenv(childEnv) {
	case "load":
		loadForEver(dir)
	case "verify":
		os.Exit(verifyDamaged(dir))
	default:
		os.Exit(m.Run())
	}
}

func child(what, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+what, childEnv+"_DIR="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// content is a payload that says what it is: a number and filling of a size
// that depends on it, below and above the value log's threshold.
func content(n uint64) []byte {
	b := make([]byte, 8+n*37%3000)
	binary.BigEndian.PutUint64(b, n)
	for i := range b[8:] {
		b[8+i] = byte(n) + byte(i)
	}
	return b
}

func number(payload []byte) uint64 {
	if len(payload) < 8 {
		return 0
	}
	n := binary.BigEndian.Uint64(payload)
	if string(content(n)) != string(payload) {
		return 0
	}
	return n
}

func putNumber(s *Store, key record.Key, n uint64) outbox.Ticket {
	return s.Update(key, func(outbox.Record) (outbox.Change, error) {
		return outbox.Change{Desired: &record.Desired{Payload: content(n)}, NewGeneration: true,
			Status: &record.Status{Attempts: int(n)}}, nil
	})
}

func keyOf(i int) record.Key { return record.Key{Sink: "demo", Name: fmt.Sprint("key ", i)} }

const killKeys = 64

// loadForEver puts growing numbers and says so on standard output once they are
// durable. A line is one write, which a kill does not cut. Meanwhile it compacts
// without a pause: the journal is cut, and Badger reopened, under the load.
func loadForEver(dir string) {
	s, err := Open(Options{Dir: dir, ReserveBytes: -1})
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	var mu sync.Mutex
	for i := range killKeys {
		go func() {
			rec, err := s.Get(keyOf(i))
			for n := number(rec.Desired.Payload) + 1; err == nil; n++ {
				if err = putNumber(s, keyOf(i), n).Wait(context.Background()); err == nil {
					mu.Lock()
					fmt.Printf("%d %d\n", i, n)
					mu.Unlock()
				}
			}
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}()
	}
	for err == nil {
		err = s.Compact(context.Background())
	}
	fmt.Fprintln(os.Stderr, "child: compact:", err)
	os.Exit(1)
}

// P1: what a Put returned for survives kill -9, and nothing is taken for a loss.
func TestKillLosesNothing(t *testing.T) {
	t.Logf("-seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 0))
	dir, ledger := t.TempDir(), map[int]uint64{}
	const rounds = 5
	for round := range rounds {
		killOnce(t, dir, ledger, 1+r.IntN(2000))
		s, err := Open(testOptions(t, dir))
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for i, want := range ledger {
			rec, err := s.Get(keyOf(i))
			if got := number(rec.Desired.Payload); err != nil || got < want || rec.Status.Attempts != int(got) {
				t.Errorf("round %d: key %d is at %d, status at %d, %v; %d was acknowledged",
					round, i, got, rec.Status.Attempts, err, want)
			}
		}
		if s.Info().Lossy {
			t.Errorf("round %d: a kill was taken for a loss", round)
		}
		if err := s.Close(); err != nil {
			t.Errorf("round %d: close: %v", round, err)
		}
	}
}

// killOnce kills the child after a number of acknowledged puts.
func killOnce(t *testing.T, dir string, ledger map[int]uint64, after int) {
	t.Helper()
	cmd := child("load", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		var i int
		var number uint64
		if _, err := fmt.Sscan(lines.Text(), &i, &number); err != nil {
			break // the last line may be cut off
		}
		ledger[i] = number
		if n == after {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("the child ended by itself: %v", err)
	}
}

// P1: the same for a power cut at the moment a Put returns.
func TestPowerCutLosesNothing(t *testing.T) {
	t.Logf("-seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 1))
	s, err := Open(testOptions(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ledger := map[int]uint64{}
	for round := range 5 {
		for n := range uint64(1 + r.IntN(200)) {
			i := r.IntN(killKeys)
			value := uint64(round)*1000 + n + 1
			if err := putNumber(s, keyOf(i), value).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			ledger[i] = value
		}
		if r.IntN(2) == 0 {
			if err := s.apply(); err != nil {
				t.Fatal(err)
			}
		}
		checkLedger(t, powerCut(t, s), ledger)
	}
}

func checkLedger(t *testing.T, dir string, ledger map[int]uint64) {
	t.Helper()
	report, err := Check(t.Context(), dir, nil, nil)
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("check: %v, %q", err, report.Problems)
	}
	s, err := Open(testOptions(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, want := range ledger {
		rec, err := s.Get(keyOf(i))
		if got := number(rec.Desired.Payload); err != nil || got != want {
			t.Errorf("key %d is at %d, %v; want %d", i, got, err, want)
		}
	}
}

// The journal's tail that a power cut tore, of a group that nobody was told of,
// is no loss; and nothing of it is seen.
func TestTornTailIsNoLoss(t *testing.T) {
	s, err := Open(testOptions(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := putNumber(s, keyOf(1), 1).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole := powerCut(t, s)
	if err := putNumber(s, keyOf(1), 2).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	torn := powerCut(t, s)
	path := newest(t, torn, "journal/*.log")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-1); err != nil {
		t.Fatal(err)
	}
	// The mark was not written yet when the power went.
	copyOver(t, filepath.Join(whole, markName), filepath.Join(torn, markName))
	checkLedger(t, torn, map[int]uint64{1: 1})
}

func copyOver(t testing.TB, from, to string) {
	t.Helper()
	if err := errors.Join(os.Remove(to), copyFile(from, to)); err != nil {
		t.Fatal(err)
	}
}

// newest returns the last of the files that match pattern, by name.
func newest(t testing.TB, dir, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no %s in %s: %v", pattern, dir, err)
	}
	return paths[len(paths)-1]
}

const ledgerName = "ledger"

// Whatever bit flips, or wherever a file ends: the store refuses to open, or a
// read is an error, or all is there. Never is something else returned, or
// nothing.
func TestDamageIsNeverSilent(t *testing.T) {
	t.Logf("-seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 2))
	open, closed := damageFixture(t)
	for _, c := range []struct{ from, pattern string }{
		{open, "journal/*.log"}, {open, "data/*.mem"}, {open, "data/*.vlog"}, {open, "mark"},
		{closed, "data/*.sst"}, {closed, "data/*.vlog"}, {closed, "data/MANIFEST"}, {closed, "mark"},
	} {
		for _, truncate := range []bool{false, true} {
			dir := copyDir(t, c.from)
			copyOne(t, filepath.Join(c.from, ledgerName), filepath.Join(dir, ledgerName))
			what := damage(t, r, newestWithData(t, dir, c.pattern), truncate)
			cmd := child("verify", dir)
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			err := cmd.Run()
			if err != nil {
				t.Errorf("%s: %v\n%s", what, err, out.String())
			} else {
				t.Logf("%s: %s", what, strings.TrimSpace(out.String()))
			}
		}
	}
}

// damageFixture makes a store with data in every kind of file: one as a kill
// leaves it, and one that was closed.
func damageFixture(t *testing.T) (open, closed string) {
	t.Helper()
	s, err := Open(testOptions(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for i := range 300 {
		value := uint64(i + 1)
		if err := putNumber(s, keyOf(i), value).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&lines, "%d %d\n", i, value)
		if i%50 == 20 {
			if err := s.apply(); err != nil {
				t.Fatal(err)
			}
			if err := s.journal.cut(s.committed.Load(), true); err != nil {
				t.Fatal(err)
			}
		}
	}
	open = powerCut(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	closed = s.opts.Dir
	for _, dir := range []string{open, closed} {
		if err := os.WriteFile(filepath.Join(dir, ledgerName), []byte(lines.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return open, closed
}

// newestWithData skips files that hold nothing but a header.
func newestWithData(t testing.TB, dir, pattern string) string {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(dir, pattern))
	for i := len(paths) - 1; i >= 0; i-- {
		if dataEnd(t, paths[i]) > 24 {
			return paths[i]
		}
	}
	t.Fatalf("no %s with data in %s", pattern, dir)
	return ""
}

// dataEnd is where zeros begin that go on to the end.
func dataEnd(t testing.TB, path string) (end int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = eachData(f, func(b []byte, offset int64) error {
		if n := len(bytes.TrimRight(b, "\x00")); n > 0 {
			end = int(offset) + n
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func damage(t testing.TB, r *rand.Rand, path string, truncate bool) string {
	t.Helper()
	end := dataEnd(t, path)
	at := r.Int64N(int64(end))
	if truncate {
		if err := os.Truncate(path, at); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s cut at %d of %d", filepath.Base(path), at, end)
	}
	flip(t, path, at)
	return fmt.Sprintf("%s flipped at %d of %d", filepath.Base(path), at, end)
}

// verifyDamaged compares a store with its ledger. It exits with 0 where nothing
// wrong was read, and says what came of it.
func verifyDamaged(dir string) int {
	s, err := Open(Options{Dir: dir, ReserveBytes: -1})
	if err != nil {
		fmt.Println("refused:", err)
		return 0
	}
	defer s.Close()
	b, err := os.ReadFile(filepath.Join(dir, ledgerName))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	refused := 0
	for line := range strings.Lines(string(b)) {
		var i int
		var want uint64
		fmt.Sscan(line, &i, &want)
		rec, err := s.Get(keyOf(i))
		switch got := number(rec.Desired.Payload); {
		case err != nil:
			refused++
		case got != want || rec.Status.Attempts != int(want):
			fmt.Printf("key %d reads as %d, status %d, without an error; want %d\n", i, got, rec.Status.Attempts, want)
			return 1
		}
	}
	fmt.Println("reads that said that they are damaged:", refused)
	return 0
}
