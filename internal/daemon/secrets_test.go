package daemon

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/client"
)

var secretsSeed = flag.Uint64("seed", 0, "seed of the random tests; 0: a new one")

// indiscreet is a target that repeats all that it was ever sent, in bodies and headers of
// its answers, and now and then changes a password by itself.
type indiscreet struct {
	mu      sync.Mutex
	rng     *rand.Rand
	changed []string // passwords that it may set by itself
	bodies  map[string]string
	sent    map[string]bool // credentials seen
}

func (x *indiscreet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sent[r.Header.Get("Authorization")] = true
	old, there := x.bodies[r.URL.Path]
	w.Header().Set("X-Said", strings.TrimSpace(strings.Map(printable, string(body))))
	switch x.rng.IntN(8) {
	case 0:
		w.WriteHeader(http.StatusUnprocessableEntity)
	case 1:
		w.WriteHeader(http.StatusServiceUnavailable)
	case 2:
		w.Header().Set("Location", "/elsewhere?"+url.Values{"was": {string(body), old}}.Encode())
		w.WriteHeader(http.StatusFound)
	case 3:
		w.WriteHeader(http.StatusUnauthorized)
	default:
		switch {
		case r.Method == http.MethodPut:
			x.bodies[r.URL.Path] = string(body)
		case r.Method == http.MethodDelete:
			delete(x.bodies, r.URL.Path)
		case !there:
			w.WriteHeader(http.StatusNotFound)
		default:
			if x.rng.IntN(3) == 0 {
				old = document(x.changed[x.rng.IntN(len(x.changed))])
				x.bodies[r.URL.Path] = old
			}
			_, _ = io.WriteString(w, old)
			return
		}
	}
	if x.rng.IntN(2) == 0 { // the host withholds an answer that repeats it
		r.Header.Del("Authorization")
	}
	_, _ = fmt.Fprintf(w, "%s %s %s", body, old, r.Header)
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return '?'
	}
	return r
}

// document is a resource's content with a password.
func document(password string) string {
	text, _ := json.Marshal(map[string]string{"name": "somebody", "password": password}) // of strings
	return string(text)
}

// secretsKit is a daemon at an indiscreet target, what its secrets are, and all that it
// has said.
type secretsKit struct {
	t       *testing.T
	rng     *rand.Rand
	address string
	secrets map[string]string // value by what it is
	payload []string          // those of payloads
	tokens  []string          // those of callers, of which some are good
	said    bytes.Buffer      // each answer, behind what was asked
}

// secret makes one of characters that every encoding writes in its own way.
func (k *secretsKit) secret(what, alphabet string) string {
	letters := []rune(alphabet)
	text := make([]rune, 24)
	for i := range text {
		text[i] = letters[k.rng.IntN(len(letters))]
	}
	k.secrets[what] = string(text)
	return string(text)
}

// ask sends a request as the bearer of token, and keeps what is answered.
func (k *secretsKit) ask(token, method, path, body string) string {
	k.t.Helper()
	r, err := http.NewRequestWithContext(k.t.Context(), method, k.address+path, strings.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		k.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		k.t.Fatal(err)
	}
	fmt.Fprintf(&k.said, "%s %s: %s %v\n%s\n", method, path, response.Status, response.Header, answer)
	return string(answer)
}

// step does one thing that a caller may do.
func (k *secretsKit) step() {
	k.t.Helper()
	at := fmt.Sprintf("/v1/sinks/web/resource?key=k%d", k.rng.IntN(6))
	of := func(verb string) string { return strings.Replace(at, "?", "/"+verb+"?", 1) }
	password := k.payload[k.rng.IntN(len(k.payload))]
	line := fmt.Sprintf(`{"sink":"web","key":"k%d","payload":%s}`, k.rng.IntN(6), document(password))
	steps := []struct{ method, path, body string }{
		{"PUT", at, `{"payload":` + document(password) + `}`},
		{"PUT", at, fmt.Sprintf(`{"payloadBase64":%q}`, base64.StdEncoding.EncodeToString([]byte("no JSON: "+password)))},
		{"PUT", at, `{"payload":` + document(password)},                            // it is cut off
		{"PUT", at, `{"payload":` + document(password) + `,"deletionPolicy":"x"}`}, // it is not allowed
		{"POST", "/v1/batch", line + "\n" + line[:len(line)-1]},
		{"POST", "/v1/plan?values=true", line},
		{"POST", "/v1/sagas", fmt.Sprintf(`{"id":"s%d","mode":"optimistic","wait":"0s","timeout":"1s","steps":[{"verb":"upsert",%s]}`, k.rng.IntN(9), line[1:])},
		{"GET", at + "&payload=true", ""},
		{"GET", of("explain"), ""},
		{"GET", of("diff") + "&values=true", ""},
		{"POST", of([]string{"retry", "suspend", "resume", "accept", "force", "forget"}[k.rng.IntN(6)]), ""},
		{"DELETE", at, ""},
		{"GET", "/v1/resources?payloads=true", ""},
		{"GET", fmt.Sprintf("/v1/sagas/s%d?payload=true", k.rng.IntN(9)), ""},
		{"GET", []string{"/v1/status", "/v1/sinks", "/v1/whoami", "/v1/store", "/v1/sources", "/metrics"}[k.rng.IntN(6)], ""},
	}
	s := steps[k.rng.IntN(len(steps))]
	k.ask(k.tokens[k.rng.IntN(len(k.tokens))], s.method, s.path, s.body)
}

// newSecretsKit starts a daemon and gives what it logs and its target.
func newSecretsKit(t *testing.T, seed uint64) (k *secretsKit, keeper *client.Client, log *safeBuffer, target *indiscreet, stop func() error) {
	t.Helper()
	needPlugins(t)
	const plain, awkward = `abcXYZ019-._~+/`, `abcXYZ019 "\/<>&=?+%é'` + "\t"
	k = &secretsKit{t: t, rng: rand.New(rand.NewPCG(seed, 1)), secrets: map[string]string{}}
	dir := t.TempDir()
	tokens, sealed := filepath.Join(dir, "tokens"), filepath.Join(dir, "store.key")
	for _, name := range []string{"keeper", "reader"} {
		token, hash := access.NewToken()
		k.secrets["token of "+name], k.tokens = token, append(k.tokens, token)
		scope := map[string]access.Scope{"keeper": access.Admin, "reader": access.Read}[name]
		if err := access.AddToken(tokens, &access.Token{Name: name, Hash: hash, Grants: []access.TokenGrant{{Scope: scope}}}); err != nil {
			t.Fatal(err)
		}
	}
	k.tokens = append(k.tokens, k.tokens[0], k.tokens[0], k.tokens[0], k.secret("token that nobody made", plain))
	key := make([]byte, 32)
	for i := range key {
		key[i] = byte(k.rng.Uint32())
	}
	k.secrets["key of the store"] = base64.StdEncoding.EncodeToString(key)
	if err := os.WriteFile(sealed, []byte(k.secrets["key of the store"]), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		k.payload = append(k.payload, k.secret(fmt.Sprint("password ", i), awkward))
	}
	target = &indiscreet{rng: rand.New(rand.NewPCG(seed, 2)), bodies: map[string]string{}, sent: map[string]bool{}}
	for i := range 2 {
		target.changed = append(target.changed, k.secret(fmt.Sprint("password of the target ", i), awkward))
	}
	srv := httptest.NewServer(target)
	t.Cleanup(srv.Close)

	credential := k.secret("credential of the upstream", plain)
	o := options()
	o.LookupEnv = func(name string) (string, bool) { return credential, name == "OBJECTS_TOKEN" }
	log = &safeBuffer{}
	var err error
	if o.Logger, o.LogLevel, err = NewLogger(config.Log{Level: "debug", Format: "json"}, log, false); err != nil {
		t.Fatal(err)
	}
	d := begin(t, load(t, write(t, dir, srv.URL, "    drift_interval: 1s\n    retry: {base: 10ms, max: 50ms}\n"), "PAWL_SERVER_TOKEN_FILE="+tokens, "PAWL_STORE_ENCRYPTION_KEY_FILE="+sealed), o)
	k.address = d.ready.Address
	if keeper, err = client.New(client.Options{Address: k.address, Token: k.tokens[0]}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(keeper.Close)
	return k, keeper, log, target, d.stop
}

// forms are how a secret may be written.
func forms(secret string) []string {
	quoted, _ := json.Marshal(secret) // a string
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(secret) // as above
	twice, _ := json.Marshal(string(quoted[1 : len(quoted)-1]))
	return []string{
		secret, string(quoted[1 : len(quoted)-1]), strings.Trim(strings.TrimSpace(plain.String()), `"`), string(twice[1 : len(twice)-1]),
		url.QueryEscape(secret), url.PathEscape(secret), hex.EncodeToString([]byte(secret)),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
		fmt.Sprint([]byte(secret)),
	}
}

// TestNoSecretShowsInAnythingThatTheDaemonSays does at random what callers do, among them
// some who are not let in or send what can't be read, at a target that repeats what it
// was sent. Afterwards no secret is in any answer, log, metric or debug bundle.
func TestNoSecretShowsInAnythingThatTheDaemonSays(t *testing.T) {
	seed := *secretsSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", seed)
	k, keeper, log, target, stop := newSecretsKit(t, seed)
	for range 400 {
		k.step()
	}
	places := map[string]string{"an answer": k.said.String()}
	for name, content := range bundleOf(t, keeper, true) {
		places["the debug bundle's "+name] = unpacked(t, content)
	}

	// They were there to be shown.
	if shown := func() string {
		k.ask(k.tokens[0], "PUT", "/v1/sinks/web/resource?key=k0", `{"payload":`+document(k.payload[0])+`}`)
		return k.ask(k.tokens[0], "GET", "/v1/sinks/web/resource?key=k0&payload=true&reveal=true", "")
	}(); !strings.Contains(shown, document(k.payload[0])) {
		t.Errorf("who may see a password is not shown it: %s", shown)
	}
	if _, err := keeper.Get(t.Context(), record.Key{Sink: "web", Name: "k0"}, client.GetOptions{}); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	target.mu.Lock()
	defer target.mu.Unlock()
	if !target.sent["Bearer "+k.secrets["credential of the upstream"]] {
		t.Error("the target never got the credential")
	}
	places["the log"] = log.String()
	for place, text := range places {
		for what, secret := range k.secrets {
			for _, form := range forms(secret) {
				if at := strings.Index(text, form); at >= 0 {
					t.Errorf("%s has the %s:\n…%s…", place, what, text[max(0, at-300):min(len(text), at+len(form)+50)])
					break
				}
			}
		}
	}
}
