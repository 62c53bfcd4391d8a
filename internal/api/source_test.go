package api

import (
	"slices"
	"testing"
	"time"
)

func TestHeadlinesOfASourceSayWhatNeedsSomebody(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	st := DaemonStatus{Sources: []Source{{Name: "files", Kept: 3, Unswept: "cut.json:2"}, {Name: "more", Kept: 1}}}
	want := []string{
		"Source files: nothing that it lacks is deleted until cut.json:2 is right.",
		"Source files: 3 things can't be read or were refused; see pawl source status files.",
		"Source more: 1 thing can't be read or was refused; see pawl source status more.",
	}
	if got := Headlines(&st, now); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
