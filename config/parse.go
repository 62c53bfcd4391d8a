package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pawlsync/pawl/internal/duration"
)

// problem is an Error without its place.
type problem struct{ what, hint string }

func (p *problem) Error() string { return p.what }

func problemf(hint, format string, args ...any) *problem {
	return &problem{what: fmt.Sprintf(format, args...), hint: hint}
}

// parse turns text, from whatever source, into f's Go value (time.Duration,
// Bytes, string, bool, int, float64 or, comma-separated, []string) and checks
// that it is allowed there. The error is a *problem; it never shows a secret.
func (f *field) parse(text string) (any, error) {
	switch f.kind {
	case kindString, kindPath, kindSecret:
		return f.parseString(text)
	case kindList:
		return f.parseList(splitList(text))
	case kindBool:
		if text != "true" && text != "false" {
			return nil, problemf("write true or false", "needs a boolean, not %s", shown(text))
		}
		return text == "true", nil
	case kindInt:
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, problemf("", "needs a whole number, not %s", shown(text))
		}
		return n, within(f, n, strconv.Atoi, strconv.Itoa)
	case kindFloat:
		x, err := parseFloat(text)
		if err != nil {
			return nil, problemf("", "needs a number, not %s", shown(text))
		}
		return x, within(f, x, parseFloat, showFloat)
	case kindDuration:
		d, err := parseDuration(text)
		if err != nil {
			return nil, err
		}
		return d, within(f, d, parseDuration, duration.Text)
	case kindBytes:
		b, err := ParseBytes(text)
		if err != nil {
			what, hint, _ := strings.Cut(err.Error(), "; ")
			return nil, &problem{what, hint}
		}
		return b, within(f, b, ParseBytes, Bytes.String)
	}
	return nil, problemf("", "can't be given as one value")
}

func (f *field) parseString(text string) (any, error) {
	if i := strings.IndexFunc(text, unicode.IsControl); i >= 0 {
		return nil, problemf("", "has a control character at byte %d", i)
	}
	switch {
	case text == "" && (f.def != "" || f.dynamic != "" || f.required):
		return nil, problemf("", "must not be empty")
	case f.kind == kindPath && strings.HasPrefix(text, "~"):
		return nil, problemf("write the whole path", "~ is not expanded in %s", shown(text))
	case len(f.oneof) > 0 && !slices.Contains(f.oneof, text):
		return nil, problemf(didYouMean(text, f.oneof), "unknown value %s", shown(text))
	}
	return text, nil
}

func (f *field) parseList(items []string) (any, error) {
	for i, item := range items {
		switch {
		case item == "":
			return nil, problemf("", "item %d is empty", i+1)
		case slices.Contains(items[:i], item):
			return nil, problemf("", "lists %s twice", shown(item))
		case strings.ContainsFunc(item, unicode.IsControl):
			return nil, problemf("", "item %d has a control character", i+1)
		}
	}
	return items, nil
}

// splitList cuts a list as variables and flags give it.
func splitList(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	items := strings.Split(text, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}

// within checks v against f's bounds. It returns an error, not a *problem, so
// that "nothing" is a nil interface.
func within[T cmp.Ordered](f *field, v T, read func(string) (T, error), show func(T) string) error {
	var zero T
	if f.zero != "" && v == zero {
		return nil
	}
	lo, loErr := read(f.min)
	hi, hiErr := read(f.max)
	if (loErr != nil || v >= lo) && (hiErr != nil || v <= hi) {
		return nil
	}
	allowed := fmt.Sprintf("allowed is %s to %s", show(lo), show(hi))
	if f.zero != "" {
		allowed += fmt.Sprintf(", or 0 (%s)", f.zero)
	}
	return &problem{what: show(v) + " is out of range", hint: allowed}
}

func parseFloat(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err == nil && (math.IsNaN(x) || math.IsInf(x, 0)) {
		err = errors.New("not finite")
	}
	return x, err
}

// showFloat writes no exponent where people would not.
func showFloat(x float64) string {
	if math.Abs(x) < 1e9 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	hint := "write numbers and units, as in 30s, 1m30s or 24h"
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		hint = fmt.Sprintf("it has no unit: did you mean %ss?", text)
	} else if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 10_000 {
			hint = fmt.Sprintf("there is no unit d: write %dh", n*24)
		}
	}
	return 0, problemf(hint, "%s is no duration", shown(text))
}
