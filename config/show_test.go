package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const full = `
server: {listen: "0.0.0.0:1", token_file: token, tls: {cert_file: c, key_file: k, client_ca_file: a, clients: {ci: {uris: [x], grants: [{scope: write, sinks: [files]}, {scope: read}]}}}}
log: {level: warn}
defaults: {timeout: 10s, rate: 2.5}
upstreams:
  files:
    base_url: https://files.example.com
    credentials: {basic: {username: "123", password: {value: hunter2}}}
    sign: {standard_webhooks: {secret: {env: SIGNING}}}
    tls: {server_name: other.example.com}
sinks:
  files:
    plugin: http
    upstreams: [files]
    drift_interval: 0
    sensitive: [/a b, "/true", /x#y]
    config: {Path: "/x/{key}", n: 1.0, big: 18446744073709551615, deep: {a: [1, "2", "", ~, {}], "yes": "no"}, text: "a\nb\u2028\t\"é"}
sagas:
  both:
    params:
      name: {pattern: "[a-z0-9]+", default: "007"}
      count: {type: integer, default: 7, min: 1}
      on: {type: boolean, default: true}
    steps:
      - {sink: files, key: "a/{{.name}}", verb: create, payload: {n: "{{.count}}", on: "{{.on}}", "a.b/c": ["x {{.name}}"]}}
      - {sink: files, key: "b/{{.name}}", verb: delete, after: forget}
`

func TestShownConfigurationLoadsToTheSame(t *testing.T) {
	file := write(t, full)
	c := mustLoad(t, Options{File: file, Env: []string{"PAWL_LOG_FORMAT=json", "HOME=/h"}})
	shown, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again := mustLoad(t, Options{File: write(t, string(shown))})
	again.Upstreams["files"].Credentials.Basic.Password.Value = "hunter2"
	again.File, again.origins = c.File, c.origins
	if !reflect.DeepEqual(c, again) {
		t.Errorf("loaded:\n%+v\nafter showing and loading again:\n%+v\nshown:\n%s", c, again, shown)
	}
}

func TestShownConfigurationSaysWhereValuesComeFrom(t *testing.T) {
	c := mustLoad(t, Options{
		File: write(t, full), Env: []string{"PAWL_LOG_FORMAT=json"}, Flags: map[string]string{"store.path": "/data"},
	})
	shown, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"level: warn # line 3\n", "format: json # PAWL_LOG_FORMAT\n", "path: /data # --store\n",
		"max_in_flight: 4096\n", "timeout: 10s # defaults, line 4\n", "value: '[redacted]' # line 8\n",
		"    config:\n      Path: /x/{key}\n      n: 1.0\n",
		"default: \"007\"\n", "default: 7\n", "default: true\n", "      - sink: files # line 25\n", "        after: forget # line 26\n",
	} {
		if !strings.Contains(string(shown), want) {
			t.Errorf("lacks %q:\n%s", want, shown)
		}
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	c := mustLoad(t, Options{File: write(t, full)})
	shown, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	password := c.Upstreams["files"].Credentials.Basic.Password
	texts := map[string]string{"YAML": string(shown), "JSON": string(asJSON)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		texts[verb] = fmt.Sprintf(verb, password)
	}
	for how, text := range texts {
		if strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("%s shows the secret: %s", how, text)
		}
	}
	if got := password.Value.Reveal(); got != "hunter2" {
		t.Errorf("Reveal = %q", got)
	}
}
