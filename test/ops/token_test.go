package ops

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/test/ops/kit"
)

// TestARevokedTokenEndsWhatItHasOpenAndNobodyElseNotices revokes the token of one of two
// callers that put and watch, while the daemon runs.
func TestARevokedTokenEndsWhatItHasOpenAndNobodyElseNotices(t *testing.T) {
	target := kit.NewTarget(t)
	d := kit.New(t, target.Config(""))
	d.Server = ", token_file: tokens"
	d.WriteConfig()
	d.Become(bearer(t, d, "oncall", "--scope admin"))
	ci := d.As(bearer(t, d, "ci", "--scope write --sink web"))
	shop := d.As(bearer(t, d, "shop", "--scope write --sink web"))
	d.Start()
	d.Show("log-level debug") // who is not let in is told at that level alone
	load := kit.StartLoad(shop, 2, 50)
	load.Busy(100)
	cis, shops := ci.Begin("watch web/seen/"), shop.Begin("watch web/seen/")
	d.Reaches("pawl_watchers", 2)
	ci.Show(sheet(t, d, "seen/ci"))
	cis.Says("web/seen/ci")
	shops.Says("web/seen/ci")
	ci.Show("retry web/seen/ci")
	d.Logged(`"audit":{"name":"ci"`, "retry", `"status":204`)
	if n := d.Metric(denied); n != 0 {
		t.Errorf("%g requests were not let in before anything was revoked", n)
	}

	d.Show("token list", "ci", "shop")
	d.Show("token revoke ci", "ci")
	ci.Refused(sheet(t, d, "refused"), "is no token of this daemon's", "nobody has revoked")
	cis.Fails("is no token of this daemon's")
	d.Reaches("pawl_watchers", 1)
	d.Logged(`"msg":"the token file was read again"`)
	d.Logged(`"msg":"a caller was not let in"`, `"status":401`, "POST /v1/batch")
	if n := d.Metric(denied); n < 2 {
		t.Errorf("%g requests were not let in, want what was to be applied and the watch", n)
	}
	if _, there := target.Objects()["refused"]; there {
		t.Error("what a revoked token put reached the target")
	}
	others := func() {
		t.Helper()
		load.Busy(100)
		shops.GoesOn()
	}
	others()
	shop.Show(sheet(t, d, "seen/after"))
	shops.Says("web/seen/after")

	file := filepath.Join(d.Dir, "tokens")
	good, err := os.ReadFile(file)
	kit.Must(t, err)
	kit.Must(t, os.WriteFile(file, append(good[:len(good):len(good)], "{\n"...), 0o600)) // somebody's editor
	d.Reaches("pawl_tokens_refused", 1)                                                  // the alert PawlTokensRefused
	d.Logged("the token file changed and can't be used", "line 3")
	others()
	ci.Refused("list", "is no token of this daemon's")
	kit.Must(t, os.WriteFile(file, good, 0o600))
	d.Reaches("pawl_tokens_refused", 0)

	guest := d.As(bearer(t, d, "guest", "--scope read --expires 1s"))
	kit.Eventually(t, "a token expires", func(context.Context) error {
		if out, code := guest.Run("list"); code == 0 {
			return fmt.Errorf("it is still good: %s", out)
		}
		return nil
	})
	guest.Refused("list", `token "guest" expired at`, "pawl token new")
	others()
	for _, err := range load.End() {
		t.Error(err)
	}
	for _, c := range []*kit.Daemon{d, ci, shop, guest} {
		if token := c.Caller().Token; strings.Contains(d.Log(), token) {
			t.Errorf("the log has a token, %s", token)
		}
	}
}

// denied counts those who were not let in.
const denied = `pawl_api_denied_total{reason="credentials"}`

// bearer makes a token of that name with pawl token new and its flags.
func bearer(t *testing.T, d *kit.Daemon, name, flags string) kit.Caller {
	t.Helper()
	out, code := d.Run(append([]string{"token", "new", "--name", name}, strings.Fields(flags)...)...)
	token, rest, _ := strings.Cut(out, "\n")
	t.Logf("$ pawl token new --name %s %s\n(the token)\n%s", name, flags, rest)
	if code != 0 || !strings.HasPrefix(token, "pawl_") {
		t.Fatal(out)
	}
	return kit.Caller{Token: token}
}

// sheet writes a file with one resource of the sink web, and returns the command that
// applies it.
func sheet(t *testing.T, d *kit.Daemon, key string) string {
	t.Helper()
	const file = "sheet.yaml"
	kit.Must(t, os.WriteFile(filepath.Join(d.Dir, file), fmt.Appendf(nil, "{sink: web, key: %s, payload: {n: 1}}\n", key), 0o600))
	return "apply -f " + file
}
