package api

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

func TestARetryTravelsWithDurationsAsWords(t *testing.T) {
	const text = `{"base":"1s","max":"1m30s","maxAttempts":3,"stall":"1h0m0s"}`
	var p PutRequest
	if err := p.Decode([]byte(`{"payload":1,"retry":` + text + `,"idempotencyKey":"order-17"}`)); err != nil {
		t.Fatal(err)
	}
	want := record.Retry{Base: time.Second, Max: 90 * time.Second, MaxAttempts: 3, Stall: time.Hour}
	if p.Retry.Record() != want || p.IdempotencyKey != "order-17" {
		t.Errorf("read %+v, %q", p.Retry, p.IdempotencyKey)
	}
	if back, err := json.Marshal(RetryOf(want)); err != nil || string(back) != text {
		t.Errorf("written as %s, %v", back, err)
	}
	if RetryOf(record.Retry{}) != nil || (*Retry)(nil).Record() != (record.Retry{}) {
		t.Error("nothing of its own is not nil")
	}
}

func TestAWrongRetrySaysWhatItTakes(t *testing.T) {
	for retry, says := range map[string]string{
		`{"base":5}`:             "a duration",
		`{"base":"soon"}`:        "a duration",
		`{"maxAttempts":"many"}`: "a whole number",
		`{"maxattempts":3}`:      `did you mean "maxAttempts"?`,
		`"1s"`:                   "no JSON object",
	} {
		var p PutRequest
		var problem *Problem
		if err := p.Decode([]byte(`{"payload":1,"retry":` + retry + `}`)); !errors.As(err, &problem) || !strings.Contains(problem.Detail+problem.Hint, says) {
			t.Errorf("%s: %v, want %q", retry, err, says)
		}
	}
}

func TestALineOfAPlanWithoutAPayloadHasNoSettings(t *testing.T) {
	for _, settings := range []string{`"retry":{"base":"1s"}`, `"idempotencyKey":"order-17"`} {
		for _, of := range []string{`"delete":true,`, ``} {
			var l PlanLine
			if err := l.Decode([]byte(`{"sink":"web","key":"a",` + of + settings + `}`)); CodeOf(err) != CodeInvalid {
				t.Errorf("%s %s: %v, want it refused", of, settings, err)
			}
		}
	}
}
