package saga

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pawlsync/pawl/internal/api"
)

// operation is what a saga does to one object and who may use it. What is refused is
// its last step, by the target itself.
type operation struct {
	name           string
	optimisticOnly bool
	rows           []string          // before, of namespace:NAME
	data           map[string]string // of the object before; nil: there is none
	steps          []step
	afterRows      []string
	afterData      map[string]string
}

// step is a step of an operation, and by which requests the gate knows what it does.
type step struct {
	sink, verb, key  string // NAME stands for the object's name
	payload, refused string // "" where the object before is what makes it refused
	write, restore   at     // its requests
}

// at is a request of a case: the nth of a kind at a gate.
type at struct {
	target, kind string
	nth          int
}

const (
	grants  = "grants"
	objects = "objects"
	mapKey  = "v1/ConfigMap/" + namespace + "/NAME"
)

func manifest(data string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","namespace":"` + namespace + `"},"data":` + data + `}`
}

// unmet is a precondition that SpiceDB finds not to hold when it writes.
const unmet = `"preconditions":[{"must_match":{"resource_type":"namespace","resource_id":"nowhere","relation":"owner"}}]`

// Relationships of an object.
const (
	anne  = "#owner@user:anne"
	bob   = "#owner@user:bob"
	carol = "#viewer@user:carol[office_hours]"
	dan   = "#viewer@user:dan"
)

var (
	createGrant = step{sink: grants, verb: "create", key: "owner/NAME",
		payload: `{"relationships":["namespace:NAME#owner@user:anne"]}`, refused: `{"relationships":["namespace:NAME#owner@user:anne"],` + unmet + `}`,
		write: at{grants, "write", 1}, restore: at{grants, "write", 2}}
	createObject = step{sink: objects, verb: "create", key: mapKey, payload: manifest(`{"v":"1"}`), refused: manifest(`{"v":"1","refuse":"yes"}`),
		write: at{objects, "write", 1}, restore: at{objects, "remove", 1}}
	updateGrant = step{sink: grants, verb: "upsert", key: "owner/NAME",
		payload: `{"touch":["namespace:NAME#owner@user:bob"],"delete":["namespace:NAME#owner@user:anne"]}`,
		refused: `{"touch":["namespace:NAME#owner@user:bob"],"delete":["namespace:NAME#owner@user:anne"],` + unmet + `}`,
		write:   at{grants, "write", 1}, restore: at{grants, "write", 2}}
	updateObject = step{sink: objects, verb: "upsert", key: mapKey, payload: manifest(`{"v":"2"}`), refused: manifest(`{"v":"2","refuse":"yes"}`),
		write: at{objects, "write", 1}, restore: at{objects, "write", 2}}
	deleteObject = step{sink: objects, verb: "delete", key: mapKey, write: at{objects, "remove", 1}}

	first, second = map[string]string{"v": "1"}, map[string]string{"v": "2"}
)

func deleteGrant(key string) step {
	return step{sink: grants, verb: "delete", key: key, write: at{grants, "write", 1}, restore: at{grants, "write", 2}}
}

var operations = []operation{
	{name: "create", steps: []step{createGrant, createObject}, afterRows: []string{anne}, afterData: first},
	{name: "update", rows: []string{anne, carol}, data: first, steps: []step{updateGrant, updateObject},
		afterRows: []string{bob, carol}, afterData: second},
	{name: "delete", rows: []string{anne, carol}, data: first, steps: []step{deleteGrant("namespace:NAME" + anne), deleteObject},
		afterRows: []string{carol}},
	{name: "delete by filter", rows: []string{anne, carol, dan}, data: first, steps: []step{deleteGrant("namespace:NAME"), deleteObject}},
	{name: "create, three steps", rows: []string{dan}, steps: []step{
		{sink: grants, verb: "upsert", key: "owner/NAME", payload: `{"touch":["namespace:NAME#owner@user:anne"]}`,
			write: at{grants, "write", 1}, restore: at{grants, "write", 3}},
		createObject,
		{sink: grants, verb: "upsert", key: "viewer/NAME", payload: `{"delete":["namespace:NAME#viewer@user:dan"]}`,
			refused: `{"delete":["namespace:NAME#viewer@user:dan"],` + unmet + `}`, write: at{grants, "write", 2}},
	}, afterRows: []string{anne}, afterData: first},
	{name: "create, cluster first", optimisticOnly: true, steps: []step{createObject, createGrant}, afterRows: []string{anne}, afterData: first},
	{name: "update, cluster first", optimisticOnly: true, rows: []string{anne, carol}, data: first, steps: []step{updateObject, updateGrant},
		afterRows: []string{bob, carol}, afterData: second},
}

// before is the object as it is before; one that must not be deleted says so.
func (o *operation) before(refused bool) map[string]string {
	if o.data == nil || !refused || o.steps[len(o.steps)-1].verb != "delete" {
		return o.data
	}
	return map[string]string{"v": "1", "guard": "up"}
}

// prepare brings about what is there before, by another hand.
func (o *operation) prepare(ctx context.Context, w *world, name string, refused bool) error {
	if o.data != nil {
		if err := w.put(ctx, name, o.before(refused)); err != nil {
			return err
		}
	}
	if o.rows == nil {
		return nil
	}
	return w.grant(ctx, of(name, o.rows)...)
}

// of makes relationships of an object.
func of(name string, rows []string) (full []string) {
	for _, r := range rows {
		full = append(full, "namespace:"+name+r)
	}
	return full
}

// request is the saga over the API.
func (o *operation) request(mode, name string, refused bool) api.SagaRequest {
	r := api.SagaRequest{ID: name, Mode: mode}
	for i, s := range o.steps {
		payload := s.payload
		if refused && i == len(o.steps)-1 {
			payload = s.refused
		}
		step := api.SagaStepRequest{Sink: s.sink, Key: named(s.key, name), Verb: s.verb}
		if s.verb != "delete" {
			step.Payload = json.RawMessage(named(payload, name))
		}
		r.Steps = append(r.Steps, step)
	}
	return r
}

func named(s, name string) string { return strings.ReplaceAll(s, "NAME", name) }

// look is the request by which step i is looked at first.
func (o *operation) look(i int) at {
	nth := 1
	for _, s := range o.steps[:i] {
		if s.sink == o.steps[i].sink {
			return at{} // after other looks; its failpoints cover it
		}
	}
	return at{o.steps[i].sink, "read", nth}
}

func (a at) String() string { return fmt.Sprintf("%s of %s, %d.", a.kind, a.target, a.nth) }
