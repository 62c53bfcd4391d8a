package config

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/duration"
)

func TestSizes(t *testing.T) {
	for _, row := range []struct {
		text, shown string
		want        Bytes
	}{
		{"0", "0B", 0}, {"1", "1B", 1}, {"1023", "1023B", 1023}, {"1024", "1KiB", 1024}, {"1024B", "1KiB", 1024},
		{"512KiB", "512KiB", 512 << 10}, {"1 MiB", "1MiB", 1 << 20}, {"3GiB", "3GiB", 3 << 30}, {"1TiB", "1TiB", 1 << 40},
		{"1kB", "1000B", 1000}, {"2MB", "2000000B", 2e6}, {"1GB", "1000000000B", 1e9}, {"64TB", "62500000000KiB", 64e12},
		{"9223372036854775807", "9223372036854775807B", math.MaxInt64},
	} {
		got, err := ParseBytes(row.text)
		if err != nil || got != row.want || got.String() != row.shown {
			t.Errorf("ParseBytes(%q) = %d (%s), %v; want %d (%s)", row.text, got, got, err, row.want, row.shown)
		}
		if again, err := ParseBytes(got.String()); err != nil || again != got {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d", got, again, err, got)
		}
	}
	for text, want := range map[string]string{
		"":                    `"" is no size; write a whole number and a unit, as in 512KiB`,
		"-1KiB":               `"-1KiB" is no size; write a whole number and a unit, as in 512KiB`,
		"1.5MiB":              `"1.5MiB" is no size: unknown unit ".5MiB"; use B, KiB, MiB, GiB or TiB`,
		"1m":                  `"1m" is no size: unknown unit "m"; did you mean MiB?`,
		"1KB":                 `"1KB" is no size: unknown unit "KB"; did you mean KiB?`,
		"8388608TiB":          `the size "8388608TiB" is too large`,
		"9223372036854775808": `the size "9223372036854775808" is too large`,
	} {
		if _, err := ParseBytes(text); err == nil || err.Error() != want {
			t.Errorf("ParseBytes(%q): %v, want %s", text, err, want)
		}
	}
}

func TestDurationsAreShownShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 30 * time.Second: "30s", 10 * time.Minute: "10m", 90 * time.Second: "1m30s", 24 * time.Hour: "24h",
		time.Hour + time.Second: "1h0m1s", 100 * time.Millisecond: "100ms", time.Hour + 10*time.Minute: "1h10m",
	} {
		got := duration.Text(d)
		if again, err := parseDuration(got); got != want || err != nil || again != d {
			t.Errorf("duration.Text(%d) = %s, want %s; read again: %d, %v", d, got, want, again, err)
		}
	}
}

func TestHintsNameTheNearestOrAllOfAFew(t *testing.T) {
	few, many := []string{"base", "max", "stall"}, strings.Fields("a1 b1 c1 d1 e1 f1 g1 h1 i1 j1 k1 l1 m1")
	for _, row := range []struct {
		name       string
		candidates []string
		want       string
	}{
		{"basse", few, "did you mean base?"},
		{"completely-other", few, "there are base, max, stall"},
		{"completely-other", few[:1], "there is only base"},
		{"completely-other", nil, ""},
		{"completely-other", many, ""},
		{strings.Repeat("base", 1<<20), few[:1], "there is only base"},
	} {
		if got := didYouMean(row.name, row.candidates); got != row.want {
			t.Errorf("didYouMean(%.20q, %v) = %q, want %q", row.name, row.candidates, got, row.want)
		}
	}
}

// What loads must, shown and loaded again, be shown the same; nothing panics,
// whatever the file, a variable and a flag hold.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/wrong/*.yaml", "*.yaml"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			f.Fatalf("no seeds in %s: %v", pattern, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(data), "PAWL_LOG_LEVEL", "warn", "server.listen")
		}
	}
	f.Add(full, "PAWL_SINKS_FILES_TIMEOUT", "3s", "sinks.files.rate")
	f.Add(layered, "PAWL_SINKS_USER_DB_UPSTREAMS", "up,up2", "x")
	f.Fuzz(func(t *testing.T, text, variable, value, key string) {
		o := Options{Bundled: []string{"http"}, Flags: map[string]string{key: value}}
		c, err := load("pawl.yaml", []byte(text), map[string]string{variable: value}, o)
		if err != nil {
			_ = err.Error()
			return
		}
		shown, err := c.YAML()
		if err != nil {
			t.Fatalf("YAML: %v", err)
		}
		again, err := load("/pawl.yaml", shown, nil, Options{Bundled: o.Bundled})
		if err != nil {
			t.Fatalf("what was shown does not load: %v\n%s", err, shown)
		}
		c.origins, again.origins = nil, nil // comments differ
		first, _ := c.YAML()
		second, _ := again.YAML()
		if string(first) != string(second) && c.Store.Path == again.Store.Path {
			t.Fatalf("shown:\n%s\nloaded and shown again:\n%s", first, second)
		}
	})
}
