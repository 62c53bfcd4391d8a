package main

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	pawl "github.com/pawlsync/pawl/sdk/go"
	"github.com/pawlsync/pawl/sdk/go/pawltest"
)

func TestKeysNameObjects(t *testing.T) {
	for key, want := range map[string]string{
		"apps/v1/Deployment/web/frontend":     "apps/v1/Deployment/web/frontend",
		"core/v1/ConfigMap/web/c":             "core/v1/ConfigMap/web/c",
		"/v1/ConfigMap/web/c":                 "core/v1/ConfigMap/web/c",
		"v1/ConfigMap/web/c":                  "core/v1/ConfigMap/web/c",
		"v1/Namespace/web":                    "core/v1/Namespace//web",
		"core/v1/Namespace//web":              "core/v1/Namespace//web",
		"example.com/v1beta1/Widget/w":        "example.com/v1beta1/Widget//w",
		"rbac.a/v1/ClusterRole//system:admin": "rbac.a/v1/ClusterRole//system:admin",
	} {
		id, err := parseKey(key)
		if err != nil || id.ref() != want {
			t.Errorf("%s is %s, %v; want %s", key, id.ref(), err, want)
		}
		if again, err := parseKey(id.ref()); err != nil || again != id {
			t.Errorf("the ref %s is read as %v, %v", id.ref(), again, err)
		}
	}
	for _, key := range []string{"", "c", "web/c", "v1/ConfigMap//", "v1//web/c", "v1/ConfigMap/web/..", "v1/ConfigMap/./c",
		"a/v1/b/c/d/e", "v1/ConfigMap/web/a%2fb", "v1/ConfigMap/web/a b"} {
		if id, err := parseKey(key); err == nil {
			t.Errorf("%q is taken for %v", key, id)
		}
	}
}

// live is an object as the API server shows it.
const live = `{"apiVersion":"v1","metadata":{"name":"x","namespace":"y","labels":{"a/b":"1"}},
	"spec":{"ports":[{"port":80,"protocol":"TCP","name":"web"},{"port":80,"protocol":"UDP"}],"finalizers":["f1","f2"],
	"args":["a","b"],"selector":{"app":"web"},"empty":{"defaulted":true},"cpu":"1"}}`

const liveSet = `{"f:metadata":{"f:labels":{"f:a/b":{}}},"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:name":{}}},
	"f:finalizers":{"v:\"f1\"":{}},"f:args":{},"f:selector":{},"f:empty":{},"f:cpu":{}}}`

func mustParse(t *testing.T, text string) jsondoc.Value {
	t.Helper()
	v, err := parse([]byte(text))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

func TestDriftIsWhatWasOursAndChanged(t *testing.T) {
	applied := mustParse(t, `{"spec":{"empty":{},"ports":[{"port":80,"name":"web"}],"selector":{"app":"web"}}}`)
	s := record("v1", mustParse(t, liveSet), mustParse(t, live), applied)
	if s = decodeState(s.encode()); s == nil {
		t.Fatal("a state is not what was encoded")
	}
	for change, want := range map[string]string{
		``:                                 "",
		`"app":"web"|"app":"db"`:           "/spec/selector",
		`"a/b":"1"|"a/b":"2"`:              "/metadata/labels/a~1b",
		`"a/b":"1"|"c":"1"`:                "/metadata/labels/a~1b",
		`["a","b"]|["b","a"]`:              "/spec/args",
		`"name":"web"|"name":"db"`:         "/spec/ports[port=80,protocol=TCP]/name",
		`"protocol":"TCP"|"protocol":"XX"`: "/spec/ports[port=80,protocol=TCP]",
		`"f1",|`:                           "/spec/finalizers[*]",
		`"f2"|"f3"`:                        "", // somebody else's
		`"defaulted":true|"defaulted":1`:   "", // of the object only that it is there is ours
		`,"cpu":"1"|`:                      "/spec/cpu",
		`"protocol":"UDP"|"protocol":"XX"`: "",
	} {
		from, to, _ := strings.Cut(change, "|")
		d := s.drift(mustParse(t, strings.Replace(live, from, to, 1)))
		if got := strings.Join(d.paths, " "); got != want || d.differs != (want != "") {
			t.Errorf("%s: differs %v at %q, want %q", change, d.differs, got, want)
		}
	}
}

func TestAManifestIsComparedAtWhatItSets(t *testing.T) {
	owners := []owner{{manager: "other", fields: mustParse(t, liveSet)}}
	for manifest, want := range map[string]string{
		`{"metadata":{"name":"x","namespace":"y"}}`:                             "",
		`{"spec":{"ports":[{"port":80,"name":"web"}]}}`:                         "", // the protocol is left to its default
		`{"spec":{"ports":[{"port":80,"protocol":"UDP"}]}}`:                     "",
		`{"spec":{"ports":[{"port":81}]}}`:                                      `/spec/ports[port=81]`,
		`{"spec":{"ports":[{"port":80,"protocol":"TCP","name":"db"}]}}`:         `/spec/ports[port=80,protocol=TCP]/name`,
		`{"spec":{"finalizers":["f2"]}}`:                                        "",
		`{"spec":{"finalizers":["f3"]}}`:                                        "/spec/finalizers[*]",
		`{"spec":{"args":["a"]}}`:                                               "/spec/args",
		`{"spec":{"selector":{}}}`:                                              "",
		`{"spec":{"cpu":null,"args":["a","b"]}}`:                                "",
		`{"spec":{"unknown":{"deep":1}},"metadata":{"labels":{"a/b":"2"}}}`:     "/spec/unknown/deep /metadata/labels/a~1b",
		`{"status":{},"spec":{"empty":{"defaulted":true}}}`:                     "/status",
		`{"metadata":{"labels":{"a/b":"1"}},"spec":{"selector":{"app":"web"}}}`: "",
	} {
		m := mustParse(t, manifest)
		d := missing(setOf(m, owners), mustParse(t, live), m)
		if got := strings.Join(d.paths, " "); got != want {
			t.Errorf("%s: %q, want %q", manifest, got, want)
		}
	}
}

// What was ours, and the manifest does not name any more, must go; what it names
// by fewer keys, for the rest is defaulted, is still named.
func TestWhatIsDesiredNoMoreIsLeftOver(t *testing.T) {
	s := record("v1", mustParse(t, liveSet), mustParse(t, live), jsondoc.Value{})
	const all = `{"metadata":{"labels":{"a/b":"1"}},"spec":{"ports":[{"port":80,"name":"web"}],"finalizers":["f1"],
		"args":["a","b"],"selector":{"app":"web"},"empty":{},"cpu":"1"}}`
	for change, want := range map[string]string{
		``:                                "",
		`,"cpu":"1"|`:                     "/spec/cpu",
		`,"name":"web"|`:                  "/spec/ports[port=80,protocol=TCP]/name",
		`{"port":80,"name":"web"}|`:       "/spec/ports[port=80,protocol=TCP]",
		`"f1"|`:                           "/spec/finalizers[*]",
		`{"labels":{"a/b":"1"}}|{}`:       "/metadata/labels/a~1b",
		`"selector":{"app":"web"},|`:      "/spec/selector",
		`"finalizers":["f1"]|"other":"y"`: "/spec/finalizers[*]",
	} {
		from, to, _ := strings.Cut(change, "|")
		var d difference
		s.leftovers(&d, mustParse(t, live), mustParse(t, strings.Replace(all, from, to, 1)))
		if got := strings.Join(d.paths, " "); got != want {
			t.Errorf("%s: %q, want %q", change, got, want)
		}
	}
}

func TestAStateThatIsTooLargeIsSummed(t *testing.T) {
	var set, doc strings.Builder
	for i := range 6000 {
		set.WriteString(`,"f:field-` + strconv.Itoa(i) + `":{}`)
		doc.WriteString(`,"field-` + strconv.Itoa(i) + `":"v"`)
	}
	fields := `{"f:data":{` + set.String()[1:] + `}}`
	owned := func(data string) jsondoc.Value {
		return mustParse(t, `{"metadata":{"managedFields":[{"manager":"me","operation":"Apply","apiVersion":"v1","fieldsV1":`+fields+`}]},"data":{`+data+`}}`)
	}
	first := owned(doc.String()[1:])
	encoded := record("v1", mustParse(t, fields), first, jsondoc.Value{}).encode()
	if len(encoded) > 64 {
		t.Fatalf("a sum has %d bytes", len(encoded))
	}
	s := decodeState(encoded)
	if _, d := s.again(first, ownersOf(first), "me"); d.differs {
		t.Error("what is the same differs")
	}
	changed := owned(strings.Replace(doc.String()[1:], `"v"`, `"w"`, 1))
	if _, d := s.again(changed, ownersOf(changed), "me"); !d.differs {
		t.Error("a change was not seen")
	}
	if _, d := s.again(first, ownersOf(first), "you"); !d.differs {
		t.Error("that all is somebody else's was not seen")
	}
}

func TestAStateThatIsNoStateIsNone(t *testing.T) {
	good := record("v1", mustParse(t, liveSet), mustParse(t, live), jsondoc.Value{}).encode()
	for n := range good {
		whole := (len(good)-n)%8 == 0 // digests that are missing at its end differ from whatever there is
		if s := decodeState(good[:n]); s != nil && !whole {
			t.Errorf("%d of %d bytes are taken for a state", n, len(good))
		}
	}
	for _, bad := range []string{"", "\x00", "\x01", "\x09\x02v1", "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x01\x02v1\x02[]"} {
		if decodeState([]byte(bad)) != nil {
			t.Errorf("%q is taken for a state", bad)
		}
	}
}

func TestMessagesRepeatNoValues(t *testing.T) {
	for message, want := range map[string]string{
		`Invalid value: "a \"hidden\" b": must be x`:                                          `Invalid value: …: must be x`,
		`Invalid value: {"a":"hidden: ]","b":[1]}: must be x`:                                 `Invalid value: …: must be x`,
		`Invalid value: 4711: must be x`:                                                      `Invalid value: …: must be x`,
		`Invalid value: 4711`:                                                                 `Invalid value: …`,
		`Unsupported value: "hidden": supported values: "A", "B"`:                             `Unsupported value: …: supported values: "A", "B"`,
		`a: Invalid value: "hidden": no, b: Duplicate value: "hid"`:                           `a: Invalid value: …: no, b: Duplicate value: …`,
		`.x: expected string, got &value.valueUnstructured{Value:47}`:                         `.x: expected string, got &value.valueUnstructured{Value:…}`,
		`.x: got &value.valueUnstructured{Value:map[string]interface {}{"hidden":"}"}} there`: `.x: got &value.valueUnstructured{Value:…} there`,
		`Invalid value: `: `Invalid value: `,
		`nothing`:         `nothing`,
	} {
		if got := withoutValues(message); got != want {
			t.Errorf("%s\ngave %s\nwant %s", message, got, want)
		}
	}
}

// api is an API server that has ConfigMaps, and answers all else by answer.
type api struct {
	mu       sync.Mutex
	lists    int
	status   int
	body     string
	requests []string
	bodies   []string
}

func (s *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path == "/api/v1" {
		s.lists++
		_, _ = io.WriteString(w, `{"resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["get","patch"]},
			{"name":"secrets","kind":"Secret","namespaced":true,"verbs":["get","patch"]},
			{"name":"configmaps/status","kind":"Status","namespaced":true,"verbs":["patch"]},
			{"name":"bindings","kind":"Binding","namespaced":true,"verbs":["create"]}]}`)
		return
	}
	body, _ := io.ReadAll(r.Body)
	s.requests, s.bodies = append(s.requests, r.Method+" "+r.URL.RequestURI()), append(s.bodies, string(body))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(s.status)
	_, _ = io.WriteString(w, s.body)
}

const (
	testKey     = "v1/ConfigMap/y/x"
	testPayload = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"y"},"data":{"a":"1"}}`
)

func TestAnswersBecomeStatuses(t *testing.T) {
	status := func(reason, message, details string) string {
		return `{"kind":"Status","reason":"` + reason + `","message":` + strconv.Quote(message) + `,"details":{` + details + `}}`
	}
	for name, c := range map[string]struct {
		code int
		body string
		want pawl.Status
		says string
	}{
		"unauthorized":    {401, status("Unauthorized", "Unauthorized", ""), pawl.StatusUnauthorized, "401"},
		"account":         {403, status("Forbidden", `configmaps "x" is forbidden: User "u" cannot patch resource`, `"name":"x"`), pawl.StatusUnauthorized, "cannot"},
		"a proxy's":       {403, `<html>`, pawl.StatusUnauthorized, "403"},
		"object":          {403, status("Forbidden", `pods "x" is forbidden: violates PodSecurity "restricted"`, `"name":"x"`), pawl.StatusRejected, "PodSecurity"},
		"quota":           {403, status("Forbidden", `x is forbidden: exceeded quota: q`, ""), pawl.StatusRetry, "quota"},
		"ns terminating":  {403, status("Forbidden", `being terminated`, `"causes":[{"reason":"NamespaceTerminating"}]`), pawl.StatusRetry, "terminated"},
		"ns missing":      {404, status("NotFound", `namespaces "y" not found`, `"name":"y","kind":"namespaces"`), pawl.StatusRetry, "namespace y"},
		"object missing":  {404, status("NotFound", `x`, `"name":"x","kind":"configmaps"`), pawl.StatusNotFound, "404"},
		"kind retired":    {404, `404 page not found`, pawl.StatusRetry, "no kind ConfigMap"},
		"exists":          {409, status("AlreadyExists", `exists`, ""), pawl.StatusAlreadyExists, "exists"},
		"being deleted":   {409, status("AlreadyExists", `object is being deleted: x`, ""), pawl.StatusInProgress, "deleted"},
		"conflict":        {409, status("Conflict", `c`, `"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"kubectl\" using v1","field":".data.a"}]`), pawl.StatusConflict, ".data.a is managed by kubectl"},
		"uid":             {409, status("Conflict", `Precondition failed: UID`, ""), pawl.StatusConflict, "UID"},
		"invalid":         {422, status("Invalid", `hidden`, `"causes":[{"reason":"FieldValueInvalid","message":"Invalid value: \"hidden\": no","field":"data.a"}]`), pawl.StatusRejected, "data.a: Invalid value: …: no"},
		"webhook denies":  {400, status("BadRequest", `admission webhook "w" denied the request: no`, ""), pawl.StatusRejected, "denied"},
		"webhook's code":  {500, status("", `admission webhook "w" denied the request: no`, ""), pawl.StatusRejected, "denied"},
		"webhook fails":   {500, status("InternalError", `failed calling webhook "w": timeout`, ""), pawl.StatusRetry, "webhook"},
		"no such type":    {500, status("", `failed to create typed patch object: .data.a: expected string, got &value.valueUnstructured{Value:hidden}`, ""), pawl.StatusRejected, ".data.a"},
		"etcd's limit":    {500, status("", `etcdserver: request is too large`, ""), pawl.StatusRejected, "too large"},
		"too large":       {413, status("RequestEntityTooLarge", `limit is 3145728`, ""), pawl.StatusRejected, "limit"},
		"overloaded":      {429, status("TooManyRequests", `wait`, `"retryAfterSeconds":7`), pawl.StatusRetry, "wait"},
		"away":            {503, `upstream connect error`, pawl.StatusRetry, "503"},
		"redirect":        {302, ``, pawl.StatusRejected, "redirect"},
		"no object":       {200, `{"kind":"ConfigMap"}`, pawl.StatusRetry, "metadata.uid"},
		"no JSON":         {200, `<html>`, pawl.StatusRetry, "not valid JSON"},
		"on its way out":  {200, `{"metadata":{"uid":"u","deletionTimestamp":"2030","finalizers":["f/g"]}}`, pawl.StatusInProgress, "f/g"},
		"kind goes":       {403, status("Forbidden", `w.g "x" is forbidden: create not allowed while custom resource definition is terminating`, `"name":"x"`), pawl.StatusRetry, "terminating"},
		"method unknown":  {405, status("MethodNotAllowed", `no`, ""), pawl.StatusRejected, "405"},
		"media type":      {415, status("UnsupportedMediaType", `no`, ""), pawl.StatusRejected, "415"},
		"history expired": {410, status("Expired", `old`, ""), pawl.StatusRetry, "old"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &api{status: c.code, body: c.body}
			k := pawltest.New(t, &adapter{}, pawltest.Options{Upstream: s})
			got := k.Apply(&pawl.Request{Key: testKey, Payload: []byte(testPayload)})
			if got.Status != c.want || !strings.Contains(got.Message, c.says) || strings.Contains(got.Message, "hidden") {
				t.Errorf("%v: %s; want %v and %q", got.Status, got.Message, c.want, c.says)
			}
			if whole := name == "overloaded"; got.WholeTarget != whole || whole && got.RetryAfter.Seconds() != 7 {
				t.Errorf("retry after %v, whole target %v", got.RetryAfter, got.WholeTarget)
			}
		})
	}
}

func TestAnApplyForcesUnlessItReports(t *testing.T) {
	for _, c := range []struct {
		policy pawl.ConflictPolicy
		force  bool
		want   string
	}{{pawl.SourceWins, false, "true"}, {pawl.TargetWins, false, "true"}, {pawl.ReportOnly, false, "false"}, {pawl.ReportOnly, true, "true"}} {
		s := &api{status: 200, body: `{"metadata":{"uid":"u"}}`}
		k := pawltest.New(t, &adapter{}, pawltest.Options{Upstream: s})
		k.Apply(&pawl.Request{Key: testKey, Payload: []byte(testPayload), ConflictPolicy: c.policy, Force: c.force})
		want := "PATCH /api/v1/namespaces/y/configmaps/x?fieldManager=pawl-test&force=" + c.want + "&fieldValidation=Strict"
		if !slices.Equal(s.requests, []string{want}) {
			t.Errorf("sent %q, want %q", s.requests, want)
		}
	}
}

// A creation is one conditional request, so that nobody can come between; and what
// conflicted with it is looked at, for it need not be the object.
func TestCreationsAreConditional(t *testing.T) {
	s := &api{status: 201, body: `{"metadata":{"uid":"u","resourceVersion":"7"}}`}
	k := pawltest.New(t, &adapter{}, pawltest.Options{Upstream: s})
	create := &pawl.Request{Key: testKey, Mode: pawl.CreateOnly, Payload: []byte(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"y","creationTimestamp":null},"data":{"a":"1"},"status":{}}`)}
	if got := k.Apply(create); got.Status != pawl.StatusOK || len(s.requests) != 1 || s.bodies[0] !=
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"y","resourceVersion":"9223372036854775807"},"data":{"a":"1"}}` {
		t.Errorf("%v: sent %q %s", got.Status, s.requests, s.bodies)
	}
	for look, want := range map[int]pawl.Status{200: pawl.StatusAlreadyExists, 404: pawl.StatusConflict, 500: pawl.StatusConflict} {
		s := &api{status: 409, body: `{"kind":"Status","reason":"Conflict","message":"changed","details":{"name":"x"}}`}
		k := pawltest.New(t, &adapter{}, pawltest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && r.URL.Path != "/api/v1" {
				w.WriteHeader(look)
				_, _ = io.WriteString(w, `{"kind":"Status","details":{"name":"x"}}`)
				return
			}
			s.ServeHTTP(w, r)
		})})
		if got := k.Apply(create); got.Status != want {
			t.Errorf("a conflict, and a look that is answered %d: %v, want %v", look, got.Status, want)
		}
	}
}

func TestDeletionsNameTheUID(t *testing.T) {
	s := &api{status: 200, body: `{"kind":"Status"}`}
	k := pawltest.New(t, &adapter{}, pawltest.Options{Upstream: s, Config: `{"propagation":"Foreground"}`})
	if got := k.Delete(&pawl.Request{Key: testKey, UID: "u-1"}); got.Status != pawl.StatusOK {
		t.Fatalf("%+v", got)
	}
	if b := s.bodies[0]; !strings.Contains(b, `"preconditions":{"uid":"u-1"}`) || !strings.Contains(b, `"propagationPolicy":"Foreground"`) {
		t.Errorf("sent %s", b)
	}
}

// Many calls that begin together ask for a group's kinds once; a kind that the
// server does not have is not asked for again and again.
func TestKindsAreAskedForOnce(t *testing.T) {
	s := &api{status: 200, body: `{"metadata":{"uid":"u"}}`}
	k := pawltest.New(t, &adapter{}, pawltest.Options{Upstream: s})
	for range 50 {
		k.Apply(&pawl.Request{Key: testKey, Payload: []byte(testPayload)})
	}
	for range 50 {
		got := k.Observe(&pawl.Request{Key: "v1/Binding/y/x", Payload: []byte(strings.Replace(testPayload, "ConfigMap", "Binding", 1))})
		if got.Status != pawl.StatusRetry || got.RetryAfter != kindWait || got.WholeTarget {
			t.Fatalf("%+v", got)
		}
	}
	if s.lists > 2 {
		t.Errorf("the kinds were asked for %d times", s.lists)
	}
	if got := k.Observe(&pawl.Request{Key: "v1/Binding/y/x"}); got.Status != pawl.StatusNotFound {
		t.Errorf("a tombstone of a kind that does not exist: %+v", got)
	}
}

func TestConfigsThatAreRefused(t *testing.T) {
	for config, want := range map[string]string{
		`{"propagation":"background"}`:                         `did you mean "Background"`,
		`{"namespce":"x"}`:                                     `did you mean "namespace"`,
		`{"namespace":"a/b"}`:                                  "namespace",
		`{"field_manager":""}`:                                 "field_manager",
		`{"field_manager":"` + strings.Repeat("x", 129) + `"}`: "field_manager",
		`{"recreate":["Job",1]}`:                               "recreate[1]",
		`{"upstream":"nobody"}`:                                "not granted",
		`{"key":"name"}`:                                       "key",
		`{"field_validation":"Strict","recreate":"Job"}`:       "recreate",
	} {
		_, err := pawltest.TryNew(t, &adapter{}, pawltest.Options{Upstream: &api{}, Config: config})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}
