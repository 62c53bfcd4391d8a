package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestTheRingHasWarningsAndErrorsWhateverTheLevelOfTheLog(t *testing.T) {
	var written bytes.Buffer
	o := Options{Logger: slog.New(slog.NewTextHandler(&written, &slog.HandlerOptions{Level: slog.LevelError}))}
	o.setDefaults()
	o.secrets.learn("canary-secret")
	log := o.Logger.With("sink", "web")
	log.Info("fine")
	log.Warn("so so", "error", "it said canary-secret")
	log.Error("bad")
	got := string(o.recent.all())
	if strings.Count(got, "\n") != 2 || !strings.Contains(got, `"msg":"so so","sink":"web"`) || !strings.Contains(got, `"msg":"bad"`) {
		t.Errorf("remembered:\n%s", got)
	}
	if strings.Contains(got, "canary-secret") {
		t.Errorf("a secret is remembered:\n%s", got)
	}
	if strings.Count(written.String(), "\n") != 1 || !strings.Contains(written.String(), "bad") {
		t.Errorf("the log has:\n%s\nwant the error alone", &written)
	}
}

func TestTheRingForgetsTheOldestAndIsBounded(t *testing.T) {
	for _, size := range []int{10, ringLineBytes} {
		r := &logRing{}
		const lines = ringLines + 50
		for i := range lines {
			line := fmt.Sprintf("%0*d\n", size-1, i)
			if n, err := r.Write([]byte(line)); n != size || err != nil {
				t.Fatal(n, err)
			}
		}
		got := bytes.Split(bytes.TrimSpace(r.all()), []byte("\n"))
		want := min(ringLines, ringBytes/size)
		if first, last := strings.TrimLeft(string(got[0]), "0"), strings.TrimLeft(string(got[len(got)-1]), "0"); len(got) != want ||
			first != fmt.Sprint(lines-want) || last != fmt.Sprint(lines-1) {
			t.Errorf("%d lines of %d bytes, from %s to %s; want %d, the newest", len(got), size, first, last, want)
		}
		if r.bytes != len(r.all()) {
			t.Errorf("it counts %d bytes, and has %d", r.bytes, len(r.all()))
		}
	}
}

func TestALineThatIsTooLongLeavesAWord(t *testing.T) {
	r := &logRing{}
	_, _ = r.Write(bytes.Repeat([]byte("a"), ringLineBytes+1))
	if got := string(r.all()); got != fmt.Sprintf("{\"msg\":\"a line of %d bytes is not remembered\"}\n", ringLineBytes+1) {
		t.Errorf("remembered: %.200s", got)
	}
}
