package access

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tokenKit is a token file, and what knows its tokens.
type tokenKit struct {
	*testing.T
	path string
	log  strings.Builder
	now  time.Time
}

func newTokenKit(t *testing.T) *tokenKit {
	return &tokenKit{T: t, path: filepath.Join(t.TempDir(), "tokens"), now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
}

func (k *tokenKit) write(content string) {
	k.Helper()
	if err := os.WriteFile(k.path, []byte(content), 0o600); err != nil {
		k.Fatal(err)
	}
}

// add adds a token and returns what its bearer sends.
func (k *tokenKit) add(token Token) string {
	k.Helper()
	sent, hash := NewToken()
	token.Hash = hash
	if token.Grants == nil {
		token.Grants = []TokenGrant{{Scope: Read}}
	}
	if err := AddToken(k.path, &token); err != nil {
		k.Fatal(err)
	}
	return sent
}

func (k *tokenKit) open() *Tokens {
	k.Helper()
	t, err := OpenTokens(TokenOptions{File: k.path, Logger: slog.New(slog.NewTextHandler(&k.log, nil)), Now: func() time.Time { return k.now }})
	if err != nil {
		k.Fatal(err)
	}
	return t
}

func (k *tokenKit) ask(t *Tokens, authorization string) (*Identity, error) {
	k.Helper()
	r, err := http.NewRequestWithContext(k.Context(), http.MethodGet, "http://pawl/", nil)
	if err != nil {
		k.Fatal(err)
	}
	r.Header.Set("Authorization", authorization)
	return t.Authenticate(r)
}

func TestATokenIsItsBearersNameAndGrants(t *testing.T) {
	k := newTokenKit(t)
	ci := k.add(Token{Name: "ci", Grants: []TokenGrant{{Scope: Write, Sinks: []string{"web"}, Prefix: "users/"}}, Senders: []string{"edge-1"}})
	other := k.add(Token{Name: "viewer"})
	tokens := k.open()
	id, err := k.ask(tokens, "Bearer "+ci)
	if err != nil || id == nil || id.String() != `token "ci"` {
		t.Fatalf("got %v %v", id, err)
	}
	if !id.Allows(Write, "web", "users/1") || id.Allows(Write, "web", "x") || id.Allows(Write, "db", "users/1") || !id.MaySend("edge-1") || id.MaySend("edge-2") {
		t.Errorf("it has other grants than those of the file: %+v", id)
	}
	if id, err := k.ask(tokens, "bearer  "+other); err != nil || id == nil || id.Name != "viewer" || id.MaySend("edge-1") {
		t.Errorf("the other one: %v %v", id, err)
	}
	for _, sent := range []string{"", "Bearer", "Bearer ", ci, "Basic " + ci, "Bearer " + ci[:len(ci)-1], "Bearer " + ci + "x", "Bearer " + strings.ToUpper(ci), "Bearer ci"} {
		if id, err := k.ask(tokens, sent); id != nil || err != nil {
			t.Errorf("%.12q…: %v %v, want nobody", sent, id, err)
		}
	}
	data, err := os.ReadFile(k.path)
	if err != nil || strings.Contains(string(data), ci) || strings.Contains(string(data), strings.TrimPrefix(ci, "pawl_")) {
		t.Errorf("the file has the token itself (%v)", err)
	}
}

func TestAnExpiredTokenIsRefusedAndSaysWhen(t *testing.T) {
	k := newTokenKit(t)
	sent := k.add(Token{Name: "ci", Expires: k.now.Add(time.Hour)})
	tokens := k.open()
	if id, err := k.ask(tokens, "Bearer "+sent); id == nil || err != nil {
		t.Errorf("before: %v %v", id, err)
	}
	k.now = k.now.Add(time.Hour)
	id, err := k.ask(tokens, "Bearer "+sent)
	refusal, _ := errors.AsType[*Refusal](err)
	if id != nil || refusal == nil || !strings.Contains(refusal.Error(), `token "ci" expired at 2026-05-01T13:00:00Z; ask`) {
		t.Errorf("at its end: %v %v", id, err)
	}
}

func TestAChangedFileCountsAtOnceAndABrokenOneLeavesTheTokensAsTheyWere(t *testing.T) {
	k := newTokenKit(t)
	first, second := k.add(Token{Name: "first"}), k.add(Token{Name: "second"})
	tokens := k.open()
	known := func(sent string) bool {
		t.Helper()
		id, err := k.ask(tokens, "Bearer "+sent)
		return id != nil && err == nil
	}
	if !known(first) || !known(second) {
		t.Fatal("they are not known")
	}
	if err := RemoveToken(k.path, "first"); err != nil {
		t.Fatal(err)
	}
	if known(first) || !known(second) {
		t.Error("a revoked token is known still, or the other one is not")
	}
	for broken, says := range map[string]string{
		"# nothing\n":        "holds no token",
		"{\"name\":\"x\"":    "line 1: it is no token",
		"a sentence, rather": "line 1: it is neither",
	} {
		k.write(broken)
		if !known(second) {
			t.Errorf("%q locked everybody out", broken)
		}
		if err := tokens.Trouble(); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(k.log.String(), says) {
			t.Errorf("%q: trouble %v, log %s; want %q", broken, err, k.log.String(), says)
		}
	}
	if err := os.Remove(k.path); err != nil {
		t.Fatal(err)
	}
	if !known(second) || tokens.Trouble() == nil {
		t.Error("a file that is gone locked everybody out, or is no trouble")
	}
	third := k.add(Token{Name: "third"})
	if known(second) || !known(third) || tokens.Trouble() != nil {
		t.Error("the file that is good again is not in force")
	}
}

func TestPlainTokensOfAnEarlierPawlMayDoEverythingUntilTheyAreConverted(t *testing.T) {
	k := newTokenKit(t)
	k.write("# two people\nfirst\n\n  s3cond=  \n")
	tokens := k.open()
	if !strings.Contains(k.log.String(), "pawl token convert") {
		t.Errorf("nothing is said of it: %s", k.log.String())
	}
	for sent, name := range map[string]string{"first": "line-2", "s3cond=": "line-4"} {
		id, err := k.ask(tokens, "Bearer "+sent)
		if err != nil || id == nil || id.Name != name || !id.AllowsAll(Admin) || !id.MaySend("any") {
			t.Errorf("%s: %+v %v", sent, id, err)
		}
	}
	names, err := ConvertTokens(k.path)
	if err != nil || strings.Join(names, " ") != "line-2 line-4" {
		t.Fatalf("%q %v", names, err)
	}
	data, _ := os.ReadFile(k.path)
	if !strings.HasPrefix(string(data), "# two people\n{") || strings.Contains(string(data), "first") {
		t.Errorf("the file is\n%s", data)
	}
	if id, err := k.ask(tokens, "Bearer s3cond="); err != nil || id == nil || id.Name != "line-4" || !id.AllowsAll(Admin) {
		t.Errorf("converted: %v %v", id, err)
	}
	if names, err := ConvertTokens(k.path); err != nil || len(names) != 0 {
		t.Errorf("again: %q %v", names, err)
	}
}

func TestEditsKeepWhatTheyDoNotConcern(t *testing.T) {
	k := newTokenKit(t)
	k.write("# ours\n\nplain")
	if err := os.Chmod(k.path, 0o640); err != nil {
		t.Fatal(err)
	}
	link := k.path + ".link"
	if err := os.Symlink(k.path, link); err != nil {
		t.Fatal(err)
	}
	_, hash := NewToken()
	token := Token{Name: "a<b", Hash: hash, Grants: []TokenGrant{{Scope: Read}}}
	if err := AddToken(link, &token); err == nil || !strings.Contains(err.Error(), `"a<b" is not allowed`) {
		t.Errorf("a bad name: %v", err)
	}
	token.Name = "a"
	if err := AddToken(link, &token); err != nil {
		t.Fatal(err)
	}
	if err := AddToken(link, &token); err == nil || !strings.Contains(err.Error(), `has a token "a" already`) {
		t.Errorf("the same name again: %v", err)
	}
	data, _ := os.ReadFile(k.path)
	if !strings.HasPrefix(string(data), "# ours\n\nplain\n{\"name\":\"a\"") || strings.Count(string(data), "\n") != 4 {
		t.Errorf("the file is\n%s", data)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the link is none any more: %v", err)
	}
	if info, err = os.Stat(k.path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode became %v (%v)", info.Mode(), err)
	}
	if err := RemoveToken(k.path, "b"); !errors.Is(err, ErrNoToken) {
		t.Errorf("removing what is not there: %v", err)
	}
	if err := RemoveToken(k.path, "line-3"); err != nil {
		t.Error(err)
	}
	if err := RemoveToken(k.path, "a"); err == nil || !strings.Contains(err.Error(), "last token") {
		t.Errorf("removing the last one: %v", err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(k.path)); len(entries) != 2 {
		t.Errorf("something was left behind: %v", entries)
	}
}

func TestTwoEditsAtATimeDoNotLoseWhatTheOtherDid(t *testing.T) {
	k := newTokenKit(t)
	k.add(Token{Name: "a"})
	if err := os.WriteFile(k.path+".new", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := RemoveToken(k.path, "a"); err == nil || !strings.Contains(err.Error(), "another pawl token is at work") {
		t.Errorf("got %v", err)
	}
	if list, err := ListTokens(k.path); err != nil || len(list) != 1 {
		t.Errorf("%v %v", list, err)
	}
}

func TestANewFileIsForNobodyElse(t *testing.T) {
	k := newTokenKit(t)
	k.add(Token{Name: "a"})
	if info, err := os.Stat(k.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestNewTokensDiffer(t *testing.T) {
	a, hash := NewToken()
	b, _ := NewToken()
	if a == b || !strings.HasPrefix(a, "pawl_") || len(a) != len("pawl_")+43 || HashToken(a) != hash || !bare.MatchString(a) {
		t.Errorf("%q %q", a, b)
	}
}
