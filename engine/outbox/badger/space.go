package badger

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"

	"github.com/pawlsync/pawl/engine/outbox"
)

// space watches the file system. A full one kills the process: Badger writes
// into mapped files, and there is no error code for that.
type space struct {
	dir     string
	reserve int64 // below 0: none
	free    func(dir string) (int64, error)
	behind  func() int64 // bytes that are in the journal and not yet in Badger
	log     *slog.Logger

	measured atomic.Int64 // free bytes; -1: unknown
	refusing atomic.Bool  // what the log was told last
}

// tell has the log say when Puts begin to be refused, and when that is over.
func (s *space) tell(refusing bool) {
	if !s.refusing.CompareAndSwap(!refusing, refusing) {
		return
	}
	free := slog.Int64("free_mib", s.measured.Load()>>20)
	if refusing {
		s.log.Error("the disk is nearly full: Puts are refused, deliveries go on; free some space, and it ends by itself", "dir", s.dir, free, "reserve_mib", s.reserve>>20)
		return
	}
	s.log.Info("there is space again: Puts are taken", "dir", s.dir, free)
}

// measure asks the file system, which takes about a microsecond. Where it does
// not answer, nothing is refused.
func (s *space) measure() int64 {
	free, err := s.free(s.dir)
	if err != nil {
		free = -1
	}
	s.measured.Store(free)
	return free
}

// admit refuses a Put where it, and what is queued, would reach into the
// reserve. While others are queued it goes by what their commits measured.
func (s *space) admit(size, queued int64) error {
	if s.reserve < 0 {
		return nil
	}
	free := s.measured.Load()
	if queued == 0 || s.short(free, queued+size) {
		free = s.measure()
	}
	if s.short(free, queued+size) {
		s.tell(true)
		return fmt.Errorf("%w: %d MiB are free in %s, and %d MiB are kept in reserve; free some space, and puts are taken again by themselves",
			outbox.ErrNoSpace, free>>20, s.dir, s.reserve>>20)
	}
	if s.refusing.Load() {
		s.tell(s.short(free, 0))
	}
	return nil
}

func (s *space) short(free, queued int64) bool {
	return free >= 0 && free-queued-s.behind() < s.reserve
}

// explainFull turns the file system's word for "full" into ours. It comes where
// the reserve was used up by others: what is no Put is refused then as well.
func explainFull(err error) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return fmt.Errorf("%w: not even the reserve is left: %w; free some space, and changes are taken again by themselves", outbox.ErrNoSpace, err)
}

// floor refuses to write to Badger at all where half of the reserve is gone.
func (s *space) floor() error {
	if free := s.measure(); s.reserve >= 0 && free >= 0 && free < s.reserve/2 {
		return fmt.Errorf("%w: %d MiB are free in %s; free some space, and the store goes on by itself",
			outbox.ErrNoSpace, free>>20, s.dir)
	}
	return nil
}

// closing refuses to close Badger where its memory tables would not fit.
func (s *space) closing() error {
	needed := min(s.reserve/2, 3*memTableBytes)
	if free := s.measure(); s.reserve >= 0 && free >= 0 && free < needed {
		return fmt.Errorf("%w: %d MiB are free in %s, too little to close Badger, which keeps its files until the process ends; "+
			"nothing is lost: free some space and start again", outbox.ErrNoSpace, free>>20, s.dir)
	}
	return nil
}

// isRefusing measures again, so that figures are right when no Put comes.
func (s *space) isRefusing() bool {
	if s.reserve < 0 {
		return false
	}
	short := s.short(s.measure(), 0)
	s.tell(short)
	return short
}
