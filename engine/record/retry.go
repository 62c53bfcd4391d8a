package record

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Retry says how one resource is tried again. A zero field means "as the sink says".
type Retry struct {
	Base        time.Duration // first pause after a failure, doubled from then on; 10ms to 1h
	Max         time.Duration // longest such pause; 10ms to 24h, and not below Base
	MaxAttempts int           // attempts until the resource is Stalled; at most 1,000
	Stall       time.Duration // pause while it is Stalled; 1s to 24h
}

// ErrRetry is wrapped by the errors about retry settings that are out of bounds.
var ErrRetry = errors.New("retry settings out of bounds")

// Validate says what is wrong with r; a zero field is right. The bounds are those of a
// sink's settings.
func (r Retry) Validate() error {
	for _, f := range []struct {
		name            string
		is, least, most time.Duration
	}{
		{"base", r.Base, 10 * time.Millisecond, time.Hour},
		{"max", r.Max, 10 * time.Millisecond, 24 * time.Hour},
		{"stall", r.Stall, time.Second, 24 * time.Hour},
	} {
		if f.is != 0 && (f.is < f.least || f.is > f.most) {
			return fmt.Errorf("%w: %s is %s; use %s to %s, or leave it to the sink", ErrRetry, f.name, f.is, f.least, f.most)
		}
	}
	if r.MaxAttempts < 0 || r.MaxAttempts > 1000 {
		return fmt.Errorf("%w: %d attempts; use 1 to 1000, or leave them to the sink", ErrRetry, r.MaxAttempts)
	}
	if r.Max != 0 && r.Base > r.Max {
		return fmt.Errorf("%w: base (%s) is longer than max (%s)", ErrRetry, r.Base, r.Max)
	}
	return nil
}

func appendRetry(b []byte, n protowire.Number, r Retry) []byte {
	if r == (Retry{}) {
		return b
	}
	return appendMessage(b, n, func(b []byte) []byte {
		b = appendInt(b, 1, int64(r.Base))
		b = appendInt(b, 2, int64(r.Max))
		b = appendInt(b, 3, int64(r.MaxAttempts))
		return appendInt(b, 4, int64(r.Stall))
	})
}

func (r *Retry) parse(f field) error {
	switch f.number {
	case 1:
		return parseInt(f, &r.Base)
	case 2:
		return parseInt(f, &r.Max)
	case 3:
		return parseInt(f, &r.MaxAttempts)
	case 4:
		return parseInt(f, &r.Stall)
	}
	return nil
}

// MaxIdempotencyKeyBytes is how long an idempotency key may be.
const MaxIdempotencyKeyBytes = 255

// ErrIdempotencyKey is wrapped by the errors about an idempotency key that can't be one.
var ErrIdempotencyKey = errors.New("bad idempotency key")

// ValidateIdempotencyKey says what is wrong with a key that a source gives; none is
// right. It travels as an HTTP header, which takes no more than printable ASCII, and
// loses spaces at its ends.
func ValidateIdempotencyKey(key string) error {
	if len(key) > MaxIdempotencyKeyBytes {
		return fmt.Errorf("%w: it has %d bytes, more than the %d allowed", ErrIdempotencyKey, len(key), MaxIdempotencyKeyBytes)
	}
	for i := range len(key) {
		if c := key[i]; c < ' ' || c > '~' || c == ' ' && (i == 0 || i == len(key)-1) {
			return fmt.Errorf("%w: byte %d is %q; use printable ASCII, with no space at either end", ErrIdempotencyKey, i+1, c)
		}
	}
	return nil
}
