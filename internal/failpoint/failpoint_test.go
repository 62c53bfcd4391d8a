package failpoint_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/bubble"
	"github.com/pawlsync/pawl/internal/failpoint"
)

func parse(t *testing.T, spec string) func(string) error {
	t.Helper()
	f, err := failpoint.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPoints(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := parse(t, "before write 1=error@2; after write 2 = sleep:3s;x=error")
		for i, want := range []bool{false, true, false} {
			if err := f("before write 1"); errors.Is(err, failpoint.ErrInjected) != want {
				t.Errorf("time %d: %v", i+1, err)
			}
		}
		began := time.Now()
		if err := f("after write 2"); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		for range 2 {
			if f("x") == nil {
				t.Error("it fails each time where no count is given")
			}
		}
		if f("elsewhere") != nil {
			t.Error("a point that is not named does nothing")
		}
	})
}

func TestNothingIsAskedForByNothing(t *testing.T) {
	if f := parse(t, " "); f != nil {
		t.Error("without a specification there is no function")
	}
}

func TestKillIsASIGKILL(t *testing.T) {
	if os.Getenv("DIE") != "" {
		_ = parse(t, "here=kill")("here")
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestKillIsASIGKILL$")
	cmd.Env = append(os.Environ(), "DIE=yes")
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	for spec, want := range map[string]string{
		"x": "POINT=ACTION", "=kill": "POINT=ACTION", "x=stop": "use kill, error or sleep", "x=sleep:long": "no duration",
		"x=kill:now": "no argument", "x=error@0": "count from 1",
	} {
		if _, err := failpoint.Parse(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", spec, err)
		}
	}
}
