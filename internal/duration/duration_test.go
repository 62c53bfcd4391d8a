package duration

import (
	"testing"
	"time"
)

func TestZerosAtTheEndAreLeftOut(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Minute: "1h30m",
		time.Hour + time.Second: "1h0m1s", 1500 * time.Millisecond: "1.5s", 100 * time.Minute: "1h40m",
	} {
		if got := Text(d); got != want {
			t.Errorf("%s is written as %s, want %s", d, got, want)
		}
	}
}
