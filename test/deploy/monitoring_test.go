package deploy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pawlsync/pawl/internal/metrics"
	"github.com/pawlsync/pawl/test/e2e/servers"
)

const (
	rulesFile = "../../deploy/prometheus/pawl.rules.yaml"
	dashboard = "../../deploy/grafana/pawl.json"
)

// alert is a rule as far as these tests look at it.
type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alert }
	}
	if err := yaml.Unmarshal([]byte(read(t, rulesFile)), &file); err != nil {
		t.Fatal(err)
	}
	var out []alert
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) == 0 {
		t.Fatal("there are no alerts")
	}
	return out
}

// queries are all of the dashboard, by the title of their panel.
func queries(t *testing.T) map[string]string {
	t.Helper()
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, dashboard)), &board); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ids := map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("the panel %q has the number of another one, or is too wide", p.Title)
		}
		ids[p.ID] = true
		for _, q := range p.Targets {
			// As Grafana asks where everything is chosen.
			out[p.Title+" "+q.RefID] = strings.NewReplacer("$instance", ".*", "$sink", ".*", "$__rate_interval", "1m").Replace(q.Expr)
		}
	}
	if len(out) == 0 {
		t.Fatal("the dashboard has no queries")
	}
	return out
}

var ownMetric = regexp.MustCompile(`\bpawl_[a-z_]+`)

// checkNames holds every metric of ours in text to those that the daemon shows.
func checkNames(t *testing.T, where, text string) {
	t.Helper()
	known := metrics.Names()
	for _, name := range ownMetric.FindAllString(text, -1) {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if !slices.Contains(known, name) && !slices.Contains(known, base) {
			t.Errorf("%s: the daemon has no metric %s", where, name)
		}
	}
}

func TestRulesAndDashboardNameMetricsThatTheDaemonHas(t *testing.T) {
	for _, a := range alerts(t) {
		checkNames(t, a.Alert, a.Expr)
	}
	for title, q := range queries(t) {
		checkNames(t, title, q)
	}
	checkNames(t, "docs/monitoring.md", read(t, "../../docs/monitoring.md"))
}

func TestEachAlertHasItsSectionInTheDocs(t *testing.T) {
	page := read(t, "../../docs/monitoring.md")
	var names []string
	for _, a := range alerts(t) {
		names = append(names, a.Alert)
		if !strings.Contains(page, "\n### "+a.Alert+"\n") {
			t.Errorf("docs/monitoring.md does not say what to do about %s", a.Alert)
		}
		if want := "docs/monitoring.md#" + strings.ToLower(a.Alert); !strings.HasSuffix(a.Annotations["runbook_url"], want) {
			t.Errorf("%s leads to %q, want …%s", a.Alert, a.Annotations["runbook_url"], want)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
			t.Errorf("%s is of severity %q", a.Alert, a.Labels["severity"])
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^### (Pawl\w+)$`).FindAllStringSubmatch(page, -1) {
		if !slices.Contains(names, m[1]) {
			t.Errorf("docs/monitoring.md tells of %s, which is no alert", m[1])
		}
	}
}

func TestEachAlertIsTestedByPromtool(t *testing.T) {
	ctx := slow(t)
	promtool, err := servers.Build(ctx, "promtool")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(rulesFile)
	run(t, dir, promtool, "check", "rules", "--lint=all", "--lint-fatal", "pawl.rules.yaml")
	run(t, dir, promtool, "test", "rules", "pawl.rules.test.yaml")
	tests := read(t, filepath.Join(dir, "pawl.rules.test.yaml"))
	for _, a := range alerts(t) {
		if !strings.Contains(tests, "\n        alertname: "+a.Alert+"\n") {
			t.Errorf("no test lets %s fire", a.Alert)
		}
	}
}

// A real Prometheus, configured as docs/monitoring.md says, reads the released daemon.
func TestPrometheusScrapesTheDaemonAndTakesRulesAndDashboard(t *testing.T) {
	slow(t)
	p := start(t, quiet+"metrics: {enabled: true}\n")
	base := prometheus(t, p.address)
	wait(t, "the daemon is scraped", func() bool { return len(ask(t, base, `up{job="pawl"} == 1`)) == 1 })
	wait(t, "its metrics are there", func() bool { return len(ask(t, base, "pawl_build_info")) == 1 })
	if got := ask(t, base, "pawl_build_info"); got[0].Metric["version"] != version {
		t.Errorf("it scraped %v, want version %s", got, version)
	}
	for _, q := range queries(t) {
		ask(t, base, q) // it fails the test where Prometheus refuses the query
	}
	wait(t, "no alert is broken, and none fires", func() bool { return healthy(t, base, len(alerts(t))) })
	p.stop(t)
	wait(t, "it is missed", func() bool { return len(ask(t, base, `ALERTS{alertname="PawlDown",alertstate="pending"}`)) == 1 })
}

// prometheus starts one that scrapes what listens at an address, with the rules, and
// returns its own.
func prometheus(t *testing.T, target string) (base string) {
	t.Helper()
	address, dir := freePort(t), t.TempDir()
	text := section(t, "../../docs/monitoring.md", "prometheus.yml")
	for old, new := range map[string]string{
		"127.0.0.1:7295": strings.TrimPrefix(target, "http://"), "/etc/prometheus/pawl.rules.yaml": absolute(t, rulesFile), "30s": "100ms",
	} {
		if !strings.Contains(text, old) {
			t.Fatalf("the page's prometheus.yml does not say %s", old)
		}
		text = strings.ReplaceAll(text, old, new)
	}
	stop, err := servers.StartPrometheus(t.Context(), dir, address, write(t, filepath.Join(dir, "prometheus.yml"), text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return "http://" + address
}

// healthy reports whether Prometheus has evaluated that many alerts, and none fires. An
// alert that it can't evaluate fails the test.
func healthy(t *testing.T, base string, count int) bool {
	t.Helper()
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, State, Health, LastError string }
			}
		}
	}
	fetch(t, base+"/api/v1/rules", &answer)
	seen := 0
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			if r.Health == "err" || r.State == "firing" {
				t.Fatalf("%s: %s, %s %s", r.Name, r.State, r.Health, r.LastError)
			}
			if r.Health == "ok" {
				seen++
			}
		}
	}
	return seen == count
}

// sample is one series of an answer.
type sample struct {
	Metric map[string]string `json:"metric"`
}

func ask(t *testing.T, base, query string) []sample {
	t.Helper()
	var answer struct {
		Status string
		Error  string
		Data   struct{ Result []sample }
	}
	fetch(t, base+"/api/v1/query?query="+urlQuery(query), &answer)
	if answer.Status != "success" {
		t.Fatalf("%s: %s", query, answer.Error)
	}
	return answer.Data.Result
}

func fetch(t *testing.T, url string, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		t.Fatalf("%s: %s: %v", url, res.Status, err)
	}
}

// The operator's form of the rules is made of the rules.
func TestThePrometheusRuleIsFresh(t *testing.T) {
	const path = "../../deploy/kustomize/components/prometheus-operator/prometheusrule.yaml"
	_, groups, _ := strings.Cut(read(t, rulesFile), "\ngroups:\n")
	want := fmt.Sprintf(`# Made of deploy/prometheus/pawl.rules.yaml; make it anew with:
# go test ./test/deploy -run Fresh -update
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: pawl
  namespace: pawl
spec:
  groups:
%s`, regexp.MustCompile(`(?m)^  `).ReplaceAllString(groups, "    "))
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, path) != want {
		t.Error("prometheusrule.yaml is stale; make it anew with: go test ./test/deploy -run Fresh -update")
	}
}

// The commands of docs/monitoring.md, with the released daemon and promtool.
func TestTheCommandsOfMonitoringAreTrue(t *testing.T) {
	promtool, err := servers.Build(slow(t), "promtool")
	if err != nil {
		t.Fatal(err)
	}
	deploy, err := filepath.Abs("../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir() // not the checkout: some of the commands make files
	if err := os.Symlink(deploy, filepath.Join(dir, "deploy")); err != nil {
		t.Fatal(err)
	}
	p := start(t, quiet)
	out := shell(t, dir, blocks(t, "../../docs/monitoring.md", "sh"),
		"PATH="+filepath.Dir(promtool)+":"+filepath.Dir(p.pawl)+":"+os.Getenv("PATH"), "PAWL_ADDRESS="+p.address)
	for _, want := range []string{fmt.Sprintf("SUCCESS: %d rules found", len(alerts(t))), "pawl " + version + ", up "} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if bundles, err := filepath.Glob(filepath.Join(dir, "*.tar.gz")); err != nil || len(bundles) != 2 {
		t.Errorf("the folder has the bundles %v, want two; %v", bundles, err)
	}
	p.stop(t)
}
