package dir

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/sagatemplate/form"
)

// Kubernetes takes manifests of Kubernetes as they are.
type Kubernetes struct {
	// Sink is the one that they are for.
	Sink string
	// Key makes the key of a manifest; {{.group}}, {{.version}}, {{.kind}},
	// {{.namespace}} and {{.name}} stand for what it says. Defaults to the form that the
	// plugin kube expects: group/version/kind/namespace/name, without what there is not.
	Key string
}

// keyParams are what a key template may hold.
var keyParams = []string{"group", "version", "kind", "namespace", "name"}

func parseKey(template string) (form.Text, error) {
	t, err := form.ParseText(template)
	if err != nil {
		return nil, err
	}
	for _, p := range t.Params() {
		if !slices.Contains(keyParams, p) {
			return nil, &form.Problem{What: fmt.Sprintf("a manifest has no %q", p), Hint: "there are " + strings.Join(keyParams, ", ")}
		}
	}
	if !slices.Contains(t.Params(), "name") {
		return nil, &form.Problem{What: "all objects would have the same key", Hint: "write {{.name}} into it"}
	}
	return t, nil
}

// objects gives manifests their keys.
type objects struct {
	sink string
	key  form.Text // nil: the plugin's form
}

// named is what names an object.
type named struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace    string `json:"namespace"`
		Name         string `json:"name"`
		GenerateName string `json:"generateName"`
	} `json:"metadata"`
}

// errNoSink says what to do with a manifest that has no way to go.
var errNoSink = errors.New("this is a manifest of Kubernetes, and the source says for no sink; set its dir.kubernetes.sink, or make it the payload of a document with sink and key")

// keyOf returns the key of a manifest.
func (o *objects) keyOf(manifest json.RawMessage) (record.Key, error) {
	if o == nil {
		return record.Key{}, errNoSink
	}
	var n named
	err := json.Unmarshal(manifest, &n)
	switch {
	case err != nil: // the values are nobody's to tell
		return record.Key{}, errors.New("apiVersion, kind, metadata.namespace and metadata.name of the manifest must be strings")
	case n.APIVersion == "" || n.Kind == "":
		return record.Key{}, errors.New("the manifest has no apiVersion or no kind")
	case n.Metadata.Name == "" && n.Metadata.GenerateName != "":
		return record.Key{}, errors.New("the manifest has generateName: the object would be another one each time; give it a name")
	case n.Metadata.Name == "":
		return record.Key{}, errors.New("the manifest has no metadata.name")
	}
	key := record.Key{Sink: o.sink, Name: o.name(&n)}
	return key, key.Validate()
}

func (o *objects) name(n *named) string {
	if o.key == nil {
		parts := []string{n.APIVersion, n.Kind, n.Metadata.Namespace, n.Metadata.Name}
		return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "/")
	}
	group, version, found := strings.Cut(n.APIVersion, "/")
	if !found {
		group, version = "", n.APIVersion
	}
	return o.key.Fill(map[string]form.Value{
		"group": {Text: group}, "version": {Text: version}, "kind": {Text: n.Kind},
		"namespace": {Text: n.Metadata.Namespace}, "name": {Text: n.Metadata.Name},
	})
}
