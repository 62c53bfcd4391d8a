package wholefile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAFileHasItsNameOnceItIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backup")
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("0123456789abcdef"), 3*portionBytes/16+5)
	for rest := want; len(rest) > 0; {
		n, err := f.Write(rest[:min(len(rest), 300_000)])
		if err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if f.written-f.flushed >= portionBytes {
		t.Errorf("%d of %d bytes were put on disk on the way", f.flushed, f.written)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it has its name before its end: %v", err)
	}
	if err := f.Finish(nil); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v, want %d", len(got), err, len(want))
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", info.Mode(), err)
	}
}

func TestAFileThatFailedIsRemoved(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(filepath.Join(dir, "backup"))
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("cut off")
	if err := f.Finish(cause); !errors.Is(err, cause) {
		t.Errorf("%v, want the cause", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestAFileThatIsThereIsNotOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backup")
	if err := os.WriteFile(path, []byte("monday"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path); err == nil {
		t.Error("it was taken")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "monday" {
		t.Errorf("%q, %v", got, err)
	}
}

// A disk that fails in the middle is told at once, not taken for success at the end.
func TestWhatCanNotBeWrittenIsTold(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full here")
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	f := &File{file: full, path: "/dev/full"}
	if _, err := f.Write(make([]byte, portionBytes)); err == nil {
		t.Error("it was taken")
	}
}
