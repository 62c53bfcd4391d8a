package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/outbox/storetest"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/bubble"
)

func TestMemoryIsAStore(t *testing.T) {
	storetest.Run(t, func(testing.TB) storetest.Disk { return disk{memory.NewDisk()} })
}

type disk struct{ *memory.Disk }

func (d disk) Open(observer outbox.Observer, acceptLoss bool) (outbox.Store, error) {
	s, err := memory.Open(d.Disk, memory.Options{Observer: observer, AcceptLoss: acceptLoss})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (d disk) Crash(_ testing.TB, s outbox.Store)  { s.(*memory.Store).Crash() }
func (d disk) Damage(_ testing.TB, key record.Key) { d.Disk.Damage(key) }
func (d disk) LoseTail(testing.TB)                 { d.Disk.LoseTail(3) }

func TestMemoryWorksInABubble(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		release := s.Disk().HoldCommits()
		ticket := s.Update(record.Key{Sink: "a", Name: "b"}, func(outbox.Record) (outbox.Change, error) {
			return outbox.Change{Status: &record.Status{Attempts: 1}}, nil
		})
		synctest.Wait()
		release()
		if err := ticket.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestMemoryFailsAllCommitsUntilTold(t *testing.T) {
	s := memory.New(memory.Options{})
	defer s.Close()
	fault := errors.New("fault")
	s.Disk().FailCommits(-1, fault)
	for range 3 {
		ticket := s.Update(record.Key{Sink: "a", Name: "b"}, func(outbox.Record) (outbox.Change, error) {
			return outbox.Change{Status: &record.Status{Attempts: 1}}, nil
		})
		if err := ticket.Wait(context.Background()); !errors.Is(err, fault) {
			t.Errorf("wait = %v, want %v", err, fault)
		}
	}
}
