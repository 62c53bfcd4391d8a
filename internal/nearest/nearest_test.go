package nearest

import "testing"

func TestOf(t *testing.T) {
	fields := []string{"sink", "key", "payload", "conflictPolicy", "deletionPolicy"}
	for name, want := range map[string]string{
		"sinc": "sink", "Key": "key", "payloda": "payload", "conflict_policy": "conflictPolicy",
		"zzz": "", "": "", "x": "", "deletionpolicy": "deletionPolicy",
	} {
		if got := Of(name, fields); got != want {
			t.Errorf("Of(%q) = %q, want %q", name, got, want)
		}
	}
}
