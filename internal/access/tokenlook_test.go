//go:build unix

package access

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestATokenIsRevokedByAFileOfTheSameSizeAndTime: some who put files in place give all
// of them one time, and tokens are lines of one length.
func TestATokenIsRevokedByAFileOfTheSameSizeAndTime(t *testing.T) {
	k := newTokenKit(t)
	first := k.add(Token{Name: "a"})
	old, err := os.ReadFile(k.path)
	if err != nil {
		t.Fatal(err)
	}
	long := time.Unix(1, 0)
	if err := os.Chtimes(k.path, long, long); err != nil {
		t.Fatal(err)
	}
	tokens := k.open()
	if id, err := k.ask(tokens, "Bearer "+first); id == nil || err != nil {
		t.Fatalf("before: %v %v", id, err)
	}
	sent, hash := NewToken()
	next := (&Token{Name: "b", Hash: hash, Grants: []TokenGrant{{Scope: Read}}}).line()
	if len(next) != len(old) {
		t.Fatalf("%d and %d bytes", len(next), len(old))
	}
	beside := filepath.Join(filepath.Dir(k.path), "beside")
	if err := os.WriteFile(beside, next, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(beside, long, long); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(beside, k.path); err != nil {
		t.Fatal(err)
	}
	if id, _ := k.ask(tokens, "Bearer "+first); id != nil {
		t.Error("the token that is gone is let in")
	}
	if id, _ := k.ask(tokens, "Bearer "+sent); id == nil {
		t.Error("the new one is not")
	}
}

// TestAPipeOrAHugeFileInThePlaceOfTheTokensKeepsNobodyWaiting: the tokens before stay
// in force.
func TestAPipeOrAHugeFileInThePlaceOfTheTokensKeepsNobodyWaiting(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"is no regular file": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"are the most": func(path string) error { // it takes no room: it has a hole
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(path, 1<<40)
		},
	} {
		k := newTokenKit(t)
		sent := k.add(Token{Name: "a"})
		tokens := k.open()
		if err := os.Remove(k.path); err != nil {
			t.Fatal(err)
		}
		if err := make(k.path); err != nil {
			t.Fatal(err)
		}
		if id, err := k.ask(tokens, "Bearer "+sent); id == nil || err != nil {
			t.Errorf("%s: %v %v", name, id, err)
		}
		if err := tokens.Trouble(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
