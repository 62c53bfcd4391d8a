package saga

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/bundled"
	"github.com/pawlsync/pawl/test/e2e/servers"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "seed of random choices; 0: a new one each time")
	wholeFlag = flag.Bool("whole", false, "every case, not a part that fits into an ordinary run")
	onlyFlag  = flag.String("only", "", "the matrix's cases that match this expression")
	tableFlag = flag.String("table", "", "file that the matrix's table is written to")
)

// world is what all tests of the package share.
type world struct {
	dir, pawl, kubeconfig string
	kube                  *servers.Kube
	spicedb               *servers.SpiceDB
	grants, objects       *gate
}

var the struct {
	once  sync.Once
	world *world
	err   error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if w := the.world; w != nil {
		w.close()
	}
	os.Exit(code)
}

// open starts the servers for the first test that wants them.
func open(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("real servers are slow to build and to start")
	}
	for _, name := range []string{"kube", "spicedb"} {
		if _, err := bundled.Plugin(name); err != nil {
			if os.Getenv("REQUIRE_PLUGINS") == "1" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	the.once.Do(func() { the.world, the.err = newWorld() })
	if the.err != nil {
		t.Fatal(the.err)
	}
	return the.world
}

func newWorld() (w *world, err error) {
	w = &world{}
	defer func() {
		if err != nil {
			w.close()
			w = nil
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute) // the servers' to be built the first time
	defer cancel()
	if w.dir, err = os.MkdirTemp("", "pawl-saga-"); err != nil {
		return w, err
	}
	w.pawl = filepath.Join(w.dir, "pawl")
	build := exec.CommandContext(ctx, "go", "build", "-o", w.pawl, "../../cmd/pawl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return w, fmt.Errorf("the daemon can't be built: %w\n%s", err, out)
	}
	if w.kube, err = servers.StartKube(ctx, w.dir); err != nil {
		return w, err
	}
	if w.spicedb, err = servers.StartSpiceDB(ctx, w.dir); err != nil {
		return w, err
	}
	if w.grants, w.objects, err = openGates(w.spicedb.Address, w.kube.URL, w.kube.Client()); err != nil {
		return w, err
	}
	w.kubeconfig = filepath.Join(w.dir, "gate.kubeconfig")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.objects.Certificate().Raw})
	err = os.WriteFile(w.kubeconfig, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: gate
contexts: [{name: gate, context: {cluster: gate, user: admin}}]
clusters: [{name: gate, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: admin, user: {token: %s}}]
`, w.objects.URL, base64.StdEncoding.EncodeToString(ca), w.kube.Token), 0o600)
	return w, errors.Join(err, w.furnish(ctx))
}

func (w *world) close() {
	for _, g := range []*gate{w.grants, w.objects} {
		if g != nil {
			g.CloseClientConnections()
			g.Close()
		}
	}
	if w.kube != nil {
		w.kube.Stop()
	}
	if w.spicedb != nil {
		w.spicedb.Stop()
	}
	_ = os.RemoveAll(w.dir)
}

const schema = `definition user {}
definition workflow {}
definition lock {
	relation workflow: workflow
}
caveat office_hours(zone string, hour int) {
	zone == "utc" && hour > 8
}
definition namespace {
	relation owner: user
	relation viewer: user | user with office_hours
	permission view = owner + viewer
}`

// policy lets the API server refuse what is done to an object that says so, or that
// is about to: with 422, or 403 for a deletion.
const policy = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"refusals"},
"spec":{"failurePolicy":"Fail","matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE","DELETE"],"resources":["configmaps"]}]},
"validations":[
{"expression":"object == null || !has(object.data) || !('refuse' in object.data) || object.data.refuse != 'yes'","message":"this content is refused"},
{"expression":"object != null || !has(oldObject.data) || !('guard' in oldObject.data)","message":"it is guarded","reason":"Forbidden"}]}}`

const binding = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"refusals"},
"spec":{"policyName":"refusals","validationActions":["Deny"]}}`

// furnish writes what all cases need, and waits until the policy is in force.
func (w *world) furnish(ctx context.Context) error {
	if _, err := w.ask(ctx, "/v1/schema/write", map[string]any{"schema": schema}); err != nil {
		return err
	}
	const path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	for _, o := range []struct{ path, body string }{
		{path + "ies", policy}, {path + "ybindings", binding},
		{"/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + namespace + `"}}`},
	} {
		if status, answer, err := w.call(ctx, http.MethodPost, o.path, o.body); err != nil || status != http.StatusCreated {
			return fmt.Errorf("POST %s: %d %s %w", o.path, status, answer, err)
		}
	}
	for {
		status, _, err := w.call(ctx, http.MethodPost, configMaps+"?dryRun=All", configMap("probe", map[string]string{"refuse": "yes"}))
		if err != nil || status == http.StatusUnprocessableEntity {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

const (
	namespace  = "sagas"
	configMaps = "/api/v1/namespaces/" + namespace + "/configmaps"
)

func configMap(name string, data map[string]string) string {
	b, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": namespace}, "data": data})
	return string(b)
}

// call asks the API server itself, not through the gate.
func (w *world) call(ctx context.Context, method, path, body string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.kube.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+w.kube.Token)
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	return do(w.kube.Client(), req)
}

func do(c *http.Client, req *http.Request) (int, []byte, error) {
	res, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// ask asks SpiceDB's HTTP gateway, whose messages are not the adapter's.
func (w *world) ask(ctx context.Context, path string, body any) ([]byte, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.spicedb.HTTP+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+w.spicedb.Key)
	status, answer, err := do(http.DefaultClient, req)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: %d: %s", path, status, answer)
	}
	return answer, err
}

// The gateway's JSON.
type (
	reference struct {
		Type string `json:"objectType"`
		ID   string `json:"objectId"`
	}
	caveat struct {
		Name    string         `json:"caveatName"`
		Context map[string]any `json:"context"`
	}
	relationship struct {
		Resource reference `json:"resource"`
		Relation string    `json:"relation"`
		Subject  struct {
			Object reference `json:"object"`
		} `json:"subject"`
		Caveat *caveat `json:"optionalCaveat,omitempty"`
	}
)

// row reads namespace:x#owner@user:y; those of other hands have the caveat.
func row(s string) (r relationship) {
	s, caveated := strings.CutSuffix(s, "[office_hours]")
	resource, subject, _ := strings.Cut(s, "@")
	object, relation, _ := strings.Cut(resource, "#")
	r.Relation = relation
	r.Resource.Type, r.Resource.ID, _ = strings.Cut(object, ":")
	r.Subject.Object.Type, r.Subject.Object.ID, _ = strings.Cut(subject, ":")
	if caveated {
		r.Caveat = &caveat{Name: "office_hours", Context: map[string]any{"zone": "utc"}}
	}
	return r
}

func (r relationship) String() string {
	s := fmt.Sprintf("%s:%s#%s@%s:%s", r.Resource.Type, r.Resource.ID, r.Relation, r.Subject.Object.Type, r.Subject.Object.ID)
	if r.Caveat != nil && r.Caveat.Context["zone"] == "utc" {
		s += "[" + r.Caveat.Name + "]"
	}
	return s
}

// grant writes relationships as another hand does.
func (w *world) grant(ctx context.Context, rows ...string) error {
	var updates []any
	for _, r := range rows {
		updates = append(updates, map[string]any{"operation": "OPERATION_TOUCH", "relationship": row(r)})
	}
	_, err := w.ask(ctx, "/v1/relationships/write", map[string]any{"updates": updates})
	return err
}

// rows returns the relationships of a type, or of one object "type:id", sorted.
func (w *world) rows(ctx context.Context, object string) (rows []string, err error) {
	kind, id, _ := strings.Cut(object, ":")
	filter := map[string]any{"resourceType": kind}
	if id != "" {
		filter["optionalResourceId"] = id
	}
	answer, err := w.ask(ctx, "/v1/relationships/read", map[string]any{
		"consistency": map[string]any{"fullyConsistent": true}, "relationshipFilter": filter})
	for line := range bytes.Lines(answer) {
		var r struct {
			Result struct{ Relationship relationship }
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%w: %s", err, line)
		}
		rows = append(rows, r.Result.Relationship.String())
	}
	slices.Sort(rows)
	return rows, err
}

// object is what the API server holds of a ConfigMap.
type object struct {
	Metadata struct {
		UID               string            `json:"uid"`
		Annotations       map[string]string `json:"annotations"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
	} `json:"metadata"`
	Data map[string]string `json:"data"`
}

// object returns a ConfigMap; nil: there is none.
func (w *world) object(ctx context.Context, name string) (*object, error) {
	status, answer, err := w.call(ctx, http.MethodGet, configMaps+"/"+name, "")
	switch {
	case err != nil || status == http.StatusNotFound:
		return nil, err
	case status != http.StatusOK:
		return nil, fmt.Errorf("GET %s: %d: %s", name, status, answer)
	}
	var o object
	return &o, json.Unmarshal(answer, &o)
}

// put creates a ConfigMap as another hand does.
func (w *world) put(ctx context.Context, name string, data map[string]string) error {
	status, answer, err := w.call(ctx, http.MethodPost, configMaps, configMap(name, data))
	if err == nil && status != http.StatusCreated {
		err = fmt.Errorf("create %s: %d: %s", name, status, answer)
	}
	return err
}

// random returns the test's source of chance, and says how to get it again.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64() >> 20
	}
	t.Logf("played again by: go test ./test/saga -run '^%s$' -seed %d", t.Name(), seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
