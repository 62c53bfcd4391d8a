package config

import (
	"slices"
	"strings"
	"testing"
)

const sagas = `
sinks: {a: {plugin: http}, b: {plugin: http}}
sagas:
  one:
    params: {name: {pattern: "[a-z]+"}}
    steps:
      - {sink: a, key: "{{.name}}", verb: create, payload: {x: 1}}
      - {sink: b, key: "{{.name}}", verb: delete}
`

func TestAStepGoesByItsNumberInVariablesAndFlags(t *testing.T) {
	file := write(t, sagas)
	c := mustLoad(t, Options{File: file, Env: []string{"PAWL_SAGAS_ONE_STEPS_2_SINK=a", "PAWL_SAGAS_ONE_STEPS_2_KEY=b/{{.name}}", "PAWL_SAGAS_ONE_TIMEOUT=5s"},
		Flags: map[string]string{"sagas.one.steps.1.key": "a/{{.name}}"}})
	s := c.Sagas["one"]
	if len(s.Steps) != 2 || s.Steps[0].Key != "a/{{.name}}" || s.Steps[1].Key != "b/{{.name}}" || s.Steps[1].Sink != "a" || s.Timeout.String() != "5s" {
		t.Errorf("%+v", s)
	}
	_, err := Load(Options{File: file, Env: []string{"PAWL_SAGAS_ONE_STEPS_2_KEY=x/{{.nam}}", "PAWL_SAGAS_ONE_STEPS_3_SINK=a"}})
	want := []string{
		`PAWL_SAGAS_ONE_STEPS_2_KEY: sagas.one.steps.2.key: no parameter is called "nam"; did you mean name?`,
		`PAWL_SAGAS_ONE_STEPS_3_SINK: this variable sets no key; did you mean PAWL_SAGAS_ONE_STEPS_1_SINK?`,
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got:  %v\nwant: %s", err, strings.Join(want, "\n"))
	}
}

func TestAPayloadThatIsTooLongAlreadyIsRefused(t *testing.T) {
	text := strings.Replace(sagas, "{x: 1}", "{x: "+strings.Repeat("x", 1100)+"}", 1)
	_, err := Load(Options{File: write(t, "limits: {payload_max_bytes: 1KiB}"+text)})
	if err == nil || !strings.Contains(err.Error(), "sagas.one.steps.1.payload: has 1108 bytes, more than limits.payload_max_bytes (1KiB)") {
		t.Error(err)
	}
	text = strings.Replace(sagas, `key: "{{.name}}", verb: delete`, `key: "`+strings.Repeat("k", 1020)+`/{{.name}}mmmm", verb: delete`, 1)
	_, err = Load(Options{File: write(t, text)})
	if err == nil || !strings.Contains(err.Error(), "sagas.one.steps.2.key: has 1025 bytes without its parameters; keys have at most 1024") {
		t.Error(err)
	}
}

func TestDifferencesOfSagasNameTheStep(t *testing.T) {
	a := mustLoad(t, Options{File: write(t, sagas)})
	b := mustLoad(t, Options{File: write(t, strings.Replace(sagas, "verb: delete", "verb: upsert, payload: {}", 1)+"      - {sink: a, key: k, verb: delete}\n")})
	want := []string{"sagas.one.steps.2.payload", "sagas.one.steps.2.verb", "sagas.one.steps.3"}
	if got := Differences(a, b); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Differences(b, a); !slices.Equal(got, want) {
		t.Errorf("the other way round: %v", got)
	}
	if got := Differences(a, a); len(got) > 0 {
		t.Errorf("with itself: %v", got)
	}
}
