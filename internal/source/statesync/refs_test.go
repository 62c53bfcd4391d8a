package statesync

import "testing"

func TestAnEntryIsReadFromConfigMapsAndSecrets(t *testing.T) {
	configMap := map[string]any{"data": map[string]any{"a": "eyJ9"}, "binaryData": map[string]any{"b": "eyJ9", "bad": "*"}}
	secret := map[string]any{"data": map[string]any{"a": "eyJ9"}}
	for _, tc := range []struct {
		kind   string
		object map[string]any
		key    string
		want   string
		there  bool
		bad    bool
	}{
		{configMaps, configMap, "a", "eyJ9", true, false},
		{configMaps, configMap, "b", `{"}`, true, false},
		{configMaps, configMap, "bad", "", true, true},
		{configMaps, configMap, "c", "", false, false},
		{secrets, secret, "a", `{"}`, true, false},
		{secrets, secret, "b", "", false, false},
	} {
		got, there, err := valueOf(tc.kind, tc.object, tc.key)
		if string(got) != tc.want || there != tc.there || (err != nil) != tc.bad {
			t.Errorf("%s %s: %q, %v, %v", tc.kind, tc.key, got, there, err)
		}
	}
}
