package cli

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/access"
)

// tokenKit runs pawl token on one file.
type tokenKit struct {
	*storeKit
	file string
}

func newTokenKit(t *testing.T) *tokenKit {
	k := newStoreKit(t)
	return &tokenKit{k, k.path("tokens")}
}

// token runs pawl token, which has to end with code.
func (k *tokenKit) token(code int, args ...string) (stdout, stderr string) {
	k.Helper()
	args = append([]string{"token"}, append(args, "--file", k.file)...)
	stdout, stderr, got := run(k.T, "", "", args...)
	if got != code {
		k.Fatalf("pawl %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, stdout, stderr)
	}
	return stdout, stderr
}

// bearer is who the daemon takes the sender of a token for; nil: nobody.
func (k *tokenKit) bearer(token string) *access.Identity {
	k.Helper()
	tokens, err := access.OpenTokens(access.TokenOptions{File: k.file})
	if err != nil {
		k.Fatal(err)
	}
	id, err := tokens.Authenticate(&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}})
	if err != nil {
		k.Fatal(err)
	}
	return id
}

func TestTokenNewPrintsTheTokenOnceAndTheFileHasItsHash(t *testing.T) {
	k := newTokenKit(t)
	stdout, stderr := k.token(ExitDone, "new", "--name", "ci", "--scope", "write", "--sink", "web", "--sink", "db", "--prefix", "users/", "--sender", "edge-1", "--expires", "2999-12-31")
	sent := strings.TrimSuffix(stdout, "\n")
	if strings.ContainsAny(sent, " \n") || !strings.HasPrefix(sent, "pawl_") {
		t.Errorf("standard output is not the token alone: %q", stdout)
	}
	k.wants(stderr, "ci may: write on web, db keys users/…", "valid until 2999-12-31T00:00:00Z", "not shown again", k.file+" is new")
	if data, err := os.ReadFile(k.file); err != nil || strings.Contains(string(data), sent) {
		t.Errorf("the file has the token itself (%v)", err)
	}
	id := k.bearer(sent)
	if id == nil || !id.Allows(access.Write, "db", "users/1") || id.Allows(access.Read, "db", "x") || id.Allows(access.Admin, "web", "users/1") || !id.MaySend("edge-1") || id.MaySend("edge-2") {
		t.Errorf("the bearer is %+v", id)
	}
	stdout, _ = k.token(ExitDone, "list")
	k.wants(stdout, "NAME", "ci", "write on web, db keys users/…", "edge-1", "2999-12-31")
	if stdout, _ = k.token(ExitDone, "list", "-o", "json"); !strings.Contains(stdout, `"prefix": "users/"`) || strings.Contains(stdout, sent) {
		t.Errorf("list as JSON:\n%s", stdout)
	}
}

func TestTokenNewTakesDaysDurationsAndMoments(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 500, time.FixedZone("", 3600))
	a := &app{Streams: Streams{Now: func() time.Time { return now }}}
	for text, want := range map[string]string{
		"90d": "2026-07-30T11:00:00Z", "12h": "2026-05-01T23:00:00Z", "2026-06-01": "2026-06-01T00:00:00Z", "2026-05-01T13:00:00+02:00": "",
		"2026-06-01T13:00:00+02:00": "2026-06-01T11:00:00Z", "": "0001-01-01T00:00:00Z", "0d": "", "-1d": "", "d": "", "1w": "", "2026-13-01": "",
	} {
		at, err := a.parseExpiry(text)
		if got := at.Format(time.RFC3339); (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("%q: %s %v, want %q", text, got, err, want)
		}
	}
}

func TestTokenRevokeTakesOneTokenAway(t *testing.T) {
	k := newTokenKit(t)
	first, stderr := k.token(ExitDone, "new", "--name", "first", "--scope", "admin")
	k.wants(stderr, "first may: admin", "until it is revoked")
	second, stderr := k.token(ExitDone, "new", "--name", "second", "--scope", "read")
	if strings.Contains(stderr, "is new") {
		t.Errorf("a file that was there is told to be new: %s", stderr)
	}
	_, stderr = k.token(ExitError, "new", "--name", "second", "--scope", "read")
	k.wants(stderr, `has a token "second" already`)
	k.token(ExitDone, "revoke", "first")
	if k.bearer(strings.TrimSpace(first)) != nil || k.bearer(strings.TrimSpace(second)) == nil {
		t.Error("the wrong one is gone")
	}
	_, stderr = k.token(ExitNotFound, "revoke", "first")
	k.wants(stderr, `has no "first"`)
	_, stderr = k.token(ExitError, "revoke", "second")
	k.wants(stderr, "last token")
}

func TestTokenConvertHashesPlainTokens(t *testing.T) {
	k := newTokenKit(t)
	if err := os.WriteFile(k.file, []byte("# ours\nsecret-one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, _ := k.token(ExitDone, "list")
	k.wants(stdout, "line-2", "pawl token convert")
	stdout, _ = k.token(ExitDone, "convert")
	k.wants(stdout, "converted: line-2")
	if data, _ := os.ReadFile(k.file); strings.Contains(string(data), "secret-one") {
		t.Errorf("the file is\n%s", data)
	}
	if id := k.bearer("secret-one"); id == nil || !id.AllowsAll(access.Admin) {
		t.Errorf("its bearer is %+v", id)
	}
	stdout, _ = k.token(ExitDone, "convert")
	k.wants(stdout, "no token in plain text")
}

func TestTokenCommandsSayWhatIsWrong(t *testing.T) {
	k := newTokenKit(t)
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{ExitUsage, "needs --name", []string{"new", "--scope", "read"}},
		{ExitUsage, "needs --scope", []string{"new", "--name", "a"}},
		{ExitUsage, `"root" is no scope`, []string{"new", "--name", "a", "--scope", "root"}},
		{ExitUsage, "neither a duration", []string{"new", "--name", "a", "--scope", "read", "--expires", "soon"}},
		{ExitUsage, "neither a duration", []string{"new", "--name", "a", "--scope", "read", "--expires", "99999999d"}},
		{ExitUsage, "is past already", []string{"new", "--name", "a", "--scope", "read", "--expires", "2001-01-01"}},
		{ExitError, "is not allowed", []string{"new", "--name", "a b", "--scope", "read"}},
		{ExitError, "a sink has a name", []string{"new", "--name", "a", "--scope", "read", "--sink", ""}},
		{ExitNotFound, "can't be read", []string{"list"}},
		{ExitNotFound, "can't be read", []string{"revoke", "a"}},
	} {
		_, stderr := k.token(c.code, c.args...)
		k.wants(stderr, c.says)
	}
	if _, err := os.Stat(k.file); !os.IsNotExist(err) {
		t.Errorf("a file was made: %v", err)
	}
	config := k.path("pawl.yaml")
	if err := os.WriteFile(config, []byte("server: {listen: \"127.0.0.1:0\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.wants(k.pawl(ExitError, "token", "list", "-c", config), "has no server.token_file; name the file with --file")
	if err := os.WriteFile(config, []byte("server: {token_file: made}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.wants(k.pawl(ExitDone, "token", "new", "--name", "a", "--scope", "read", "-c", config), "pawl_", k.path("made")+" is new")
}
