package pawltest_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	pawl "github.com/pawlsync/pawl/sdk/go"
	"github.com/pawlsync/pawl/sdk/go/pawltest"
)

// shelf takes part in sagas, on one object in memory.
type shelf struct {
	pawl.Unimplemented
	content []byte // nil: none
	mark    string
	locks   map[string]string // run by lock
}

func (s *shelf) Observe(_ context.Context, r *pawl.Request) (pawl.Observation, error) {
	o := pawl.Observation{Exists: s.content != nil, CID: fmt.Sprintf("%x", s.content), Content: s.content}
	if r.Saga != nil {
		o.Ours = pawl.TriOf(s.mark == r.Saga.ID)
	}
	return o, nil
}

func (s *shelf) Apply(_ context.Context, r *pawl.Request) (pawl.Observation, error) {
	if b := r.Saga.Before; b.Exists != (s.content != nil) || b.CID != fmt.Sprintf("%x", s.content) {
		return pawl.Observation{}, pawl.Conflict("it is not as it was")
	}
	s.content, s.mark = r.Payload, r.Saga.ID
	for _, l := range r.Saga.Locks {
		s.locks[l] = r.Saga.ID
	}
	return pawl.Observation{Exists: true}, nil
}

func (s *shelf) Restore(_ context.Context, r *pawl.Request) (pawl.Observation, error) {
	if s.mark != r.Saga.ID || !bytes.Equal(s.content, r.Payload) {
		return pawl.Observation{}, pawl.Conflict("somebody changed it")
	}
	if s.content, s.mark = nil, ""; r.Saga.Before.Exists {
		s.content = r.Saga.Before.Content
	}
	return pawl.Observation{Exists: s.content != nil}, nil
}

func (s *shelf) Unlock(_ context.Context, r *pawl.Request) error {
	for l, run := range s.locks {
		if run == r.Saga.ID {
			delete(s.locks, l)
		}
	}
	return nil
}

func TestAStepOfASagaIsDoneAndUndone(t *testing.T) {
	for name, was := range map[string][]byte{"nothing before": nil, "something before": []byte("was")} {
		t.Run(name, func(t *testing.T) {
			there := &shelf{content: was, locks: map[string]string{}}
			s := pawltest.New(t, there, pawltest.Options{})
			r := &pawl.Request{Key: "a", Payload: []byte("new"), Saga: &pawl.SagaRun{ID: "r", Locks: []string{"0a"}}}
			before := pawltest.Image(s.Observe(r))
			if before.Exists != (was != nil) || !bytes.Equal(before.Content, was) {
				t.Fatalf("%+v", before)
			}
			r.Saga.Before = before
			if got := s.Apply(r); got.Status != pawl.StatusOK || there.locks["0a"] != "r" {
				t.Fatalf("%+v, locks %v", got, there.locks)
			}
			if got := s.Observe(r); got.Ours != pawl.Yes {
				t.Errorf("%+v", got)
			}
			if got := s.Restore(r); got.Status != pawl.StatusOK || !bytes.Equal(there.content, was) {
				t.Errorf("%+v, and %q", got, there.content)
			}
			if got := s.Restore(r); got.Status != pawl.StatusConflict {
				t.Errorf("of what is not the run's: %+v", got)
			}
			if got := s.Unlock(r); got.Status != pawl.StatusOK || len(there.locks) != 0 {
				t.Errorf("%+v, locks %v", got, there.locks)
			}
		})
	}
}

// judged is a test that fails on purpose.
type judged struct {
	testing.TB
	failures []string
}

func (j *judged) Errorf(format string, args ...any) {
	j.failures = append(j.failures, fmt.Sprintf(format, args...))
}

func (j *judged) Fatalf(format string, args ...any) {
	j.Errorf(format, args...)
	runtime.Goexit()
}

func TestWhatTheEngineWouldNotDoFailsTheTest(t *testing.T) {
	run := &pawl.SagaRun{ID: "r"}
	for says, call := range map[string]func(s *pawltest.Sink){
		"has no Saga.Before": func(s *pawltest.Sink) { s.Restore(&pawl.Request{Saga: run}) },
		"has no Saga;":       func(s *pawltest.Sink) { s.Unlock(&pawl.Request{}) },
		"1048577 bytes of content": func(s *pawltest.Sink) {
			s.Observe(&pawl.Request{Saga: run})
		},
	} {
		j := &judged{TB: t}
		s := pawltest.New(j, &shelf{content: make([]byte, pawl.MaxImageBytes+1)}, pawltest.Options{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			call(s)
		}()
		<-done
		if len(j.failures) != 1 || !strings.Contains(j.failures[0], says) {
			t.Errorf("%s: %q", says, j.failures)
		}
	}
}
