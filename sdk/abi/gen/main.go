// Command gen writes the golden vectors of the plugin ABI, ../vectors, from the
// cases in cases.go and the schema, ../pawl/plugin/v1/plugin.proto; and the
// reference of the ABI, docs/plugins/abi.md, from the schema, the vectors and
// reference.md.tmpl. It encodes and decodes with Google's protobuf, so that the
// vectors are independent of every codec that they check.
//
//	go run .
package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// file is what is written, see ../README.md.
type file struct {
	Message   string         `json:"message"`
	About     string         `json:"about"`
	Hex       string         `json:"hex"`
	Valid     bool           `json:"valid"`
	Error     string         `json:"error,omitempty"`
	Canonical bool           `json:"canonical,omitempty"`
	Value     map[string]any `json:"value,omitempty"`
}

// referencePath is where the reference goes, from this folder.
var referencePath = filepath.Join("..", "..", "..", "docs", "plugins", "abi.md")

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	files, page, err := generate("..")
	if err != nil {
		return err
	}
	if err := write(filepath.Join("..", "vectors"), files); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(referencePath), 0o755); err != nil {
		return err
	}
	return os.WriteFile(referencePath, page, 0o644)
}

// write replaces the vectors in dir, so that those of dropped cases go.
func write(dir string, files map[string][]byte) error {
	old, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	for _, f := range old {
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the content of every vector by file name, and the reference.
// root is sdk/abi.
func generate(root string) (files map[string][]byte, page []byte, err error) {
	c := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{root}},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := c.Compile(context.Background(), "pawl/plugin/v1/plugin.proto")
	if err != nil {
		return nil, nil, err
	}
	if files, err = encodeAll(compiled[0]); err != nil {
		return nil, nil, err
	}
	page, err = makeReference(compiled[0], files)
	return files, page, err
}

// encodeAll returns the content of every vector by file name.
func encodeAll(schema protoreflect.FileDescriptor) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, v := range vectors {
		desc := schema.Messages().ByName(protoreflect.Name(v.message))
		if desc == nil {
			return nil, fmt.Errorf("%s: no message %s", v.name, v.message)
		}
		f, err := v.file(desc)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", v.message, v.name, err)
		}
		kind := "valid"
		if !f.Valid {
			kind = "invalid"
		}
		name := strings.ToLower(v.message) + "." + v.name + "." + kind + ".json"
		if _, again := files[name]; again {
			return nil, fmt.Errorf("two cases make %s", name)
		}
		if files[name], err = encode(f); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func encode(f file) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(f)
	return b.Bytes(), err
}

func (v vector) file(desc protoreflect.MessageDescriptor) (file, error) {
	f := file{Message: v.message, About: v.about, Valid: v.invalid == "", Error: v.invalid}
	m := dynamicpb.NewMessage(desc)
	if v.hex == "" {
		if err := prototext.Unmarshal([]byte(v.text), m); err != nil {
			return f, err
		}
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			return f, err
		}
		f.Hex, f.Canonical, f.Value = hex.EncodeToString(b), true, value(m)
		return f, nil
	}
	b, err := hex.DecodeString(strings.ReplaceAll(v.hex, " ", ""))
	if err != nil {
		return f, err
	}
	f.Hex = hex.EncodeToString(b)
	err = proto.Unmarshal(b, m)
	switch {
	case f.Valid && err != nil:
		return f, err
	case f.Valid:
		m.SetUnknown(nil)
		f.Value = value(m)
	case err == nil && !v.ours:
		return f, fmt.Errorf("protobuf accepts these bytes")
	}
	return f, nil
}

// value is a message as README.md describes it.
func value(m protoreflect.Message) map[string]any {
	out := map[string]any{}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := string(f.Name())
		switch {
		case f.IsMap():
			entries := map[string]any{}
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				entries[k.String()] = v.String()
				return true
			})
			out[name] = entries
		case f.IsList():
			list := []any{}
			for i := range v.List().Len() {
				list = append(list, single(f, v.List().Get(i)))
			}
			out[name] = list
		default:
			out[name] = single(f, v)
		}
		return true
	})
	return out
}

func single(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return value(v.Message())
	case protoreflect.EnumKind:
		if d := f.Enum().Values().ByNumber(v.Enum()); d != nil {
			return string(d.Name())
		}
		return int32(v.Enum())
	case protoreflect.BytesKind:
		return hex.EncodeToString(v.Bytes())
	case protoreflect.Uint64Kind:
		return strconv.FormatUint(v.Uint(), 10)
	case protoreflect.Int64Kind:
		return strconv.FormatInt(v.Int(), 10)
	}
	return v.Interface()
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }
