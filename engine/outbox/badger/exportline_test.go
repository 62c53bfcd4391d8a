package badger

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

func TestR67_AnExportLosesNothingThatIsDesired(t *testing.T) {
	at := time.Unix(1_700_000_000, 5).UTC()
	full := record.Desired{
		Generation: 3, Payload: []byte(`{"a":1}`), Hash: record.HashOf([]byte(`{"a":1}`)), Conflict: record.TargetWins, Deletion: record.Retain,
		Suspend: true, Order: record.Order{Source: "git", Epoch: "e", Number: 7}, Owner: "git", Direction: record.Both,
		Origin: record.FromTarget, SourceHash: record.HashOf([]byte("x")), PutAt: at, WaitingSince: at,
		Retry:          record.Retry{Base: time.Second, Max: time.Minute, MaxAttempts: 3, Stall: time.Hour},
		IdempotencyKey: "order-17",
	}
	for i, v := 0, reflect.ValueOf(full); i < v.NumField(); i++ {
		name := v.Type().Field(i).Name
		if v.Field(i).IsZero() && !strings.Contains("Tombstone Gone GoneUntil", name) { // which have no payload
			t.Errorf("the field %s is not tried", name)
		}
	}
	gone := record.Desired{Generation: 3, Tombstone: true, Gone: true, GoneUntil: at, Order: full.Order}
	for _, want := range []record.Desired{full, gone, {Generation: 1, Tombstone: true}} {
		text, err := json.Marshal(lineOf(keyOf(1), &outbox.Record{Desired: want}, false))
		if err != nil {
			t.Fatal(err)
		}
		var line exportLine
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatal(err)
		}
		if key, got, err := line.record(); err != nil || key != keyOf(1) || !reflect.DeepEqual(got.Desired, want) {
			t.Errorf("%s reads as\n%+v, %v; want\n%+v", text, got.Desired, err, want)
		}
	}
}

func TestALineWithSettingsOutOfBoundsIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		`"retry":{"maxAttempts":-1}`:    "attempts",
		`"idempotencyKey":"\n"`:         "idempotency key",
		`"direction":"up"`:              "direction",
		`"sourceHash":"AAAA"`:           "sourceHash has 3 bytes",
		`"retry":{"base":1000000000}`:   "",
		`"idempotencyKey":"order-17"`:   "",
		`"conflictPolicy":"unheard of"`: "conflict policy",
	} {
		var line exportLine
		if err := json.Unmarshal([]byte(`{"sink":"web","key":"a","generation":1,"payload":1,`+text+`}`), &line); err != nil {
			t.Fatal(err)
		}
		_, _, err := line.record()
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
