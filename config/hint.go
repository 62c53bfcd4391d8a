package config

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/pawlsync/pawl/internal/nearest"
)

// shownMax is how many characters of what somebody wrote a message bears. No
// name is longer, so that nothing longer is compared with names either.
const shownMax = 64

// meant guesses which candidate a wrong name was meant to be; "" if none.
func meant(name string, candidates []string) string {
	if len(name) > 2*shownMax {
		return ""
	}
	return nearest.Of(name, candidates)
}

// didYouMean is the hint for a wrong name: the nearest right one, or all of
// them if they are few.
func didYouMean(name string, candidates []string) string {
	if n := meant(name, candidates); n != "" {
		return fmt.Sprintf("did you mean %s?", n)
	}
	const few = 12
	switch n := len(candidates); {
	case n == 0 || n > few:
		return ""
	case n == 1:
		return "there is only " + candidates[0]
	}
	return "there are " + strings.Join(candidates, ", ")
}

// shown quotes what somebody wrote, cut to a length that a message can bear.
func shown(text string) string {
	if r := []rune(text); len(r) > shownMax {
		text = string(r[:shownMax]) + "…"
	}
	return fmt.Sprintf("%q", text)
}

// keyText is a key as paths in messages have it: as it is, unless that would
// garble the message.
func keyText(key string) string {
	if key == "" || len(key) > shownMax || strings.ContainsFunc(key, unicode.IsControl) {
		return shown(key)
	}
	return key
}
