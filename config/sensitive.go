package config

import "fmt"

// redacted stands where a secret would be shown.
const redacted = "[redacted]"

// Sensitive is a secret that was written into the configuration. However it is
// printed or encoded, it reads "[redacted]"; Reveal returns what it holds.
type Sensitive string

// Reveal returns the secret itself.
func (s Sensitive) Reveal() string { return string(s) }

// String is "[redacted]", or "" if there is no secret.
func (s Sensitive) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format prints String, whatever the verb: %#v and %x would show the secret.
func (s Sensitive) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText is String, for JSON, YAML and slog.
func (s Sensitive) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
