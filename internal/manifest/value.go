package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
)

// Value reads a file that holds one document of any kind, and returns it as JSON: that
// of a JSON file byte for byte (isYAML is false then), that of a YAML file as payloads
// of YAML documents are converted. name is for messages. Errors are of type *Error.
func Value(content []byte, name string) (value json.RawMessage, isYAML bool, err error) {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")) // a byte order mark
	if json.Valid(content) {
		return content, false, nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(content))
	var node, more yaml.Node
	switch err := dec.Decode(&node); {
	case errors.Is(err, io.EOF):
		return nil, true, &Error{File: name, What: "the file is empty"}
	case err != nil:
		return nil, true, yamlError(err).in(name, 0)
	}
	if err := dec.Decode(&more); err == nil {
		return nil, true, &Error{File: name, Line: more.Line, What: "there is a second document", Hint: "keep one of them"}
	} else if !errors.Is(err, io.EOF) {
		return nil, true, yamlError(err).in(name, 0)
	}
	var c converter
	if err := c.write(node.Content[0]); err != nil {
		return nil, true, err.in(name, 0)
	}
	return c.out.Bytes(), true, nil
}
