package record

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestRetrySettingsHaveTheBoundsOfASinks(t *testing.T) {
	for _, r := range []Retry{
		{}, {Base: 10 * time.Millisecond}, {Base: time.Hour}, {Max: 10 * time.Millisecond}, {Max: 24 * time.Hour}, {MaxAttempts: 1},
		{MaxAttempts: 1000}, {Stall: time.Second}, {Stall: 24 * time.Hour}, {Base: time.Second, Max: time.Second},
	} {
		if err := r.Validate(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for _, r := range []Retry{
		{Base: 10*time.Millisecond - 1}, {Base: time.Hour + 1}, {Base: -1}, {Max: 10*time.Millisecond - 1}, {Max: 24*time.Hour + 1},
		{MaxAttempts: -1}, {MaxAttempts: 1001}, {Stall: time.Second - 1}, {Stall: 24*time.Hour + 1}, {Base: time.Second + 1, Max: time.Second},
	} {
		if err := r.Validate(); !errors.Is(err, ErrRetry) {
			t.Errorf("%+v: %v, want ErrRetry", r, err)
		}
	}
}

func TestAnIdempotencyKeyIsShortAndPrintable(t *testing.T) {
	for _, key := range []string{"", "a", "a b", "~!", strings.Repeat("x", 255)} {
		if err := ValidateIdempotencyKey(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, key := range []string{strings.Repeat("x", 256), "é", "a\n", "a\x7f", " a", "a ", " "} {
		if err := ValidateIdempotencyKey(key); !errors.Is(err, ErrIdempotencyKey) {
			t.Errorf("%q: %v, want ErrIdempotencyKey", key, err)
		}
	}
}
