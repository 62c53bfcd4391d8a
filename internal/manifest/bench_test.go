package manifest

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkParse reads files of a hundred documents of 1 KiB with 28 fields each. What
// other work on the machine takes is not in µs-used/doc: processor time, that of the
// collector included.
func BenchmarkParse(b *testing.B) {
	const documents = 100
	for _, language := range []struct {
		ext      string
		document func(n int) string
	}{{"json", jsonDocument}, {"yaml", yamlDocument}} {
		var file strings.Builder
		for n := range documents {
			file.WriteString(language.document(n))
		}
		content := []byte(file.String())
		b.Run(language.ext, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(content)))
			began := processorTime(b)
			for b.Loop() {
				if entries := Parse(content, "bench."+language.ext); len(entries) != documents || entries[0].Wrong != nil {
					b.Fatalf("%d documents, the first %v", len(entries), entries[0].Wrong)
				}
			}
			b.ReportMetric(float64((processorTime(b)-began).Nanoseconds())/1000/documents/float64(b.N), "µs-used/doc")
		})
	}
}

func jsonDocument(n int) string {
	var parts []string
	for i := range 4 {
		parts = append(parts, fmt.Sprintf(`"part%d": {"name": "part-%d-of-%d", "count": %d, "enabled": true, "labels": {"app": "shop", "tier": "backend", "owner": "team-%d"}, "text": %q}`, i, i, n, n+i, n%100, strings.Repeat("x", 125)))
	}
	return fmt.Sprintf(`{"sink": "web", "key": "users/%d", "payload": {%s}}`+"\n", n, strings.Join(parts, ", "))
}

func yamlDocument(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\nsink: web\nkey: users/%d\npayload:\n", n)
	for i := range 4 {
		fmt.Fprintf(&b, "  part%d:\n    name: part-%d-of-%d\n    count: %d\n    enabled: true\n    labels:\n      app: shop\n      tier: backend\n      owner: team-%d\n    text: %s\n", i, i, n, n+i, n%100, strings.Repeat("x", 120))
	}
	return b.String()
}

func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
