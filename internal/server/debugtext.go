package server

import (
	"bytes"
	"encoding/json"
	"strings"
)

// withheld stands where a bundle does not show a text.
const withheld = "[withheld]"

// texts decide which texts a debug bundle shows. Numbers and what is yes or no always
// are; a text only where the name of its field is listed in shown, so that a
// field that is added later is not shown by mistake.
type texts struct {
	mask func(string) string
	all  bool // keys and texts of errors too
}

// shown are the fields whose texts are words of Pawl's own or the configuration's, and
// those of times.
var shown = names(`version commit built go os arch
	name plugin digest direction suspendReason breaker lastErrorStatus phase
	kind group declares kubernetesSink deletionPolicy state window
	mode outcome sink verb after status
	directory epoch restart
	level msg source op method took stack
	time at startedAt nextProbe pausedUntil oldestUnacked lastErrorAt troubleAt fullAt
	contactAt heldAt loadedAt refusedAt expires clientsExpire readAt oldestUnresolved
	began deadline endedAt nextAt mayLandUntil restored backedUp`)

// never are the fields whose texts no bundle shows: what plugins log.
var never = names(`line`)

func names(list string) map[string]bool {
	out := map[string]bool{}
	for _, name := range strings.Fields(list) {
		out[name] = true
	}
	return out
}

// json is v as JSON, without what is not shown.
func (t *texts) json(v any) ([]byte, error) {
	content, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	clean, err := t.clean(content)
	if err != nil {
		return nil, err
	}
	return indented(clean)
}

// lines are lines of JSON, without what is not shown.
func (t *texts) lines(log []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(log) {
		clean, err := t.clean(line)
		if err != nil {
			clean = map[string]any{"msg": "a line that is no JSON is not shown"}
		}
		_ = json.NewEncoder(&out).Encode(clean) // it was JSON before
	}
	return out.Bytes()
}

// failure is why a member is missing.
func (t *texts) failure(err error) string {
	if !t.all {
		return withheld
	}
	return t.mask(err.Error())
}

func (t *texts) clean(content []byte) (any, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber() // a revision has more digits than a float
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return t.value("", v), nil
}

// value is v, which stands in the field of that name, as it is shown.
func (t *texts) value(field string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = t.value(name, v[name])
		}
	case []any:
		for i := range v {
			v[i] = t.value(field, v[i])
		}
	case string:
		return t.string(field, v)
	}
	return v
}

func (t *texts) string(field, text string) string {
	if text == "" {
		return text
	}
	if never[field] || !t.all && !shown[field] {
		return withheld
	}
	// The messages of the store's library are no constants.
	if library, _, ok := strings.Cut(text, ": "); ok && field == "msg" && library == "badger" && !t.all {
		return "badger: " + withheld
	}
	return t.mask(text)
}

func indented(v any) ([]byte, error) {
	content, err := json.MarshalIndent(v, "", "  ")
	return append(content, '\n'), err
}
