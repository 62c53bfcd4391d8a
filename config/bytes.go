package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a size. It reads and prints as "512KiB"; KiB, MiB, GiB and TiB are
// powers of 1,024, kB, MB, GB and TB of 1,000, and a bare number counts bytes.
type Bytes int64

var byteUnits = []struct {
	name string
	size int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// String prints b with the largest binary unit that leaves a whole number.
func (b Bytes) String() string {
	for _, u := range byteUnits[:4] {
		if b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// MarshalText is String.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// ParseBytes reads a size; see Bytes.
func ParseBytes(s string) (Bytes, error) {
	digits := strings.TrimLeft(s, "0123456789")
	number, unit := s[:len(s)-len(digits)], strings.TrimSpace(digits)
	if number == "" {
		return 0, fmt.Errorf("%q is no size; write a whole number and a unit, as in 512KiB", s)
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the size %q is too large", s)
	}
	factor, ok := byteUnit(unit)
	switch {
	case !ok:
		return 0, fmt.Errorf("%q is no size: unknown unit %q; %s", s, unit, byteUnitHint(unit))
	case n > math.MaxInt64/factor:
		return 0, fmt.Errorf("the size %q is too large", s)
	}
	return Bytes(n * factor), nil
}

func byteUnit(name string) (int64, bool) {
	if name == "" {
		return 1, true
	}
	for _, u := range byteUnits {
		if u.name == name {
			return u.size, true
		}
	}
	return 0, false
}

// byteUnitHint guesses the binary unit that starts with the same letter.
func byteUnitHint(unit string) string {
	for _, u := range byteUnits[:4] {
		if strings.EqualFold(unit[:1], u.name[:1]) && len(unit) <= 3 {
			return fmt.Sprintf("did you mean %s?", u.name)
		}
	}
	return "use B, KiB, MiB, GiB or TiB"
}
