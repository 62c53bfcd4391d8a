package daemon

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/internal/access"
)

// scrape returns /metrics, as the bearer of token sees it.
func scrape(t *testing.T, address, token string) string {
	t.Helper()
	return look(t, address+"/metrics", token)
}

// look returns what is at url, as the bearer of token sees it.
func look(t *testing.T, url, token string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestTheMetricsSayWhoIsNotLetInAndThatATokenFileCantBeUsed(t *testing.T) {
	needPlugins(t)
	_, url := newObjects(t)
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	sent, hash := access.NewToken()
	if err := access.AddToken(tokens, &access.Token{Name: "scraper", Hash: hash, Grants: []access.TokenGrant{{Scope: access.Read}}}); err != nil {
		t.Fatal(err)
	}
	path := write(t, dir, url, "")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`listen: "127.0.0.1:0"`), []byte(`listen: "127.0.0.1:0", token_file: tokens`), 1)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	r := begin(t, load(t, path), options())
	says := func(line string) {
		t.Helper()
		if got := scrape(t, r.ready.Address, sent); !strings.Contains(got, "\n"+line+"\n") {
			t.Errorf("%s is missing in\n%s", line, got)
		}
	}
	says(`pawl_tokens_refused 0`)
	says(`pawl_api_denied_total{reason="credentials"} 0`)
	scrape(t, r.ready.Address, "rubbish")
	says(`pawl_api_denied_total{reason="credentials"} 1`)
	good, err := os.ReadFile(tokens)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tokens, append(good, '{'), 0o600); err != nil {
		t.Fatal(err)
	}
	says(`pawl_tokens_refused 1`)
	const headline = "The token file can't be used"
	if got := look(t, r.ready.Address+"/v1/status", sent); !strings.Contains(got, headline) || !strings.Contains(got, `"tokenProblem"`) {
		t.Errorf("the status does not tell of it: %s", got)
	}
	if err := os.WriteFile(tokens, good, 0o600); err != nil {
		t.Fatal(err)
	}
	says(`pawl_tokens_refused 0`)
	if got := look(t, r.ready.Address+"/v1/status", sent); strings.Contains(got, headline) {
		t.Errorf("the status tells of what is past: %s", got)
	}
}
