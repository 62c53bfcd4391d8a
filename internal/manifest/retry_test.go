package manifest

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

func TestADocumentSaysHowItsResourceIsTriedAgainAndItsKey(t *testing.T) {
	want := record.Retry{Base: time.Second, Max: time.Minute, MaxAttempts: 3, Stall: time.Hour}
	for file, content := range map[string]string{
		"a.yaml": "sink: web\nkey: a\npayload: 1\nretry: {base: 1s, max: 1m, maxAttempts: 3, stall: 1h}\nidempotencyKey: order-17\n",
		"a.json": `{"sink":"web","key":"a","payload":1,"retry":{"base":"1s","max":"1m","maxAttempts":3,"stall":"1h"},"idempotencyKey":"order-17"}`,
	} {
		entries := Parse([]byte(content), file)
		if len(entries) != 1 || entries[0].Wrong != nil || entries[0].Retry != want || entries[0].IdempotencyKey != "order-17" {
			t.Errorf("%s: %+v", file, entries)
		}
	}
}

func TestWrongRetriesAndKeysAreToldWithTheirLine(t *testing.T) {
	for field, says := range map[string]string{
		"retry: 5":                            "must be an object, but it is the number 5",
		"retry: ~":                            "must be an object, but it is null",
		"retry: {bass: 1s}":                   "did you mean base?",
		"retry: {base: 1}":                    "retry.base must be a duration",
		"retry: {stall: soon}":                "retry.stall must be a duration",
		"retry: {maxAttempts: some}":          "retry.maxAttempts must be a whole number",
		"retry: {base: 2h}":                   "use 10ms to 1h0m0s",
		"idempotencyKey: ü":                   "printable ASCII",
		"idempotencyKey: 5":                   "must be a string",
		"delete: true\nretry: {base: 1s}":     "a document with delete: true has no",
		"delete: true\nidempotencyKey: order": "a document with delete: true has no",
	} {
		payload := "payload: 1\n"
		if strings.HasPrefix(field, "delete") {
			payload = "\n"
		}
		entries := Parse([]byte("sink: web\nkey: a\n"+payload+field+"\n"), "a.yaml")
		if len(entries) != 1 || len(entries[0].Wrong) == 0 || !strings.HasPrefix(entries[0].Wrong[0].Error(), "a.yaml:4: ") || !strings.Contains(entries[0].Wrong[0].Error(), says) {
			t.Errorf("%s: %v, want line 4 and %q", field, entries, says)
		}
	}
}
