package record

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits on names.
const (
	MaxKeyBytes  = 1024
	MaxSinkBytes = 63
)

// Key identifies one resource: the sink that it goes to and its name there.
type Key struct {
	Sink string // lower-case letters, digits and hyphens, at most MaxSinkBytes
	Name string // opaque UTF-8 without control characters, at most MaxKeyBytes
}

// String returns "sink/name".
func (k Key) String() string { return k.Sink + "/" + k.Name }

// Compare orders keys by sink, then name, bytewise.
func (k Key) Compare(o Key) int {
	if c := strings.Compare(k.Sink, o.Sink); c != 0 {
		return c
	}
	return strings.Compare(k.Name, o.Name)
}

// Validate says what is wrong with k, or returns nil.
func (k Key) Validate() error {
	if err := ValidateSink(k.Sink); err != nil {
		return err
	}
	switch {
	case k.Name == "":
		return fmt.Errorf("the key is empty; name the resource within sink %q", k.Sink)
	case len(k.Name) > MaxKeyBytes:
		return fmt.Errorf("the key has %d bytes, more than the %d allowed", len(k.Name), MaxKeyBytes)
	case !utf8.ValidString(k.Name):
		return fmt.Errorf("the key %q is not valid UTF-8", k.Name)
	}
	if i := strings.IndexFunc(k.Name, unicode.IsControl); i >= 0 {
		return fmt.Errorf("the key %q has a control character at byte %d", k.Name, i)
	}
	return nil
}

// ValidateSink says what is wrong with a sink's name, or returns nil.
func ValidateSink(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the sink's name is empty")
	case len(name) > MaxSinkBytes:
		return fmt.Errorf("the sink's name has %d bytes, more than the %d allowed", len(name), MaxSinkBytes)
	}
	for i, r := range name {
		ok := r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' && i > 0
		if !ok {
			return fmt.Errorf("the sink's name %q may hold lower-case letters, digits and hyphens only, and starts with none of the last", name)
		}
	}
	return nil
}
