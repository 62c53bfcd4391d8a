package api

import (
	"slices"
	"testing"
	"time"
)

func TestHeadlinesTellOfACertificateThatEndsOrThatCantBeReplaced(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		certificate *Certificate
		want        []string
	}{
		"no TLS":     {nil, nil},
		"good":       {&Certificate{Expires: now.Add(15 * day)}, nil},
		"ends soon":  {&Certificate{Expires: now.Add(13 * day)}, []string{"The API's certificate expires in 13 days. Put a new one in its file."}},
		"has ended":  {&Certificate{Expires: now.Add(-time.Hour)}, []string{"The API's certificate expired 1h0m ago: callers are cut off. Put a new one in its file."}},
		"callers'":   {&Certificate{Expires: now.Add(90 * day), ClientsExpire: now.Add(3 * day)}, []string{"The API's last authority of client certificates expires in 3 days. Put a new one in its file."}},
		"is refused": {&Certificate{Expires: now.Add(90 * day), Problem: "no key."}, []string{"The API's certificate was replaced by one that can't be used: no key. The one before stays in force."}},
	} {
		if got := Headlines(&DaemonStatus{Certificate: c.certificate}, now); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
