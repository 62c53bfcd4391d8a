package badger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/internal/queue"
	"github.com/pawlsync/pawl/engine/record"
)

// Open opens the store in opts.Dir, or makes one.
//
// # Errors
//
// They wrap outbox.ErrLocked where another process has it open, ErrFormat where
// a newer program wrote it, ErrLost where it lost what was acknowledged
// (Options.AcceptLoss goes on) and ErrDamaged where it can't be read.
func Open(opts Options) (*Store, error) {
	if err := opts.withDefaults(); err != nil {
		return nil, err
	}
	s := &Store{opts: opts, log: opts.Logger, overlay: newOverlay(), known: newKnown(), stop: make(chan struct{})}
	s.drops.Store(true) // for all that is known
	s.life, s.endLife = context.WithCancel(context.Background())
	s.space = &space{dir: opts.Dir, reserve: opts.ReserveBytes, free: opts.hooks.free, behind: s.overlay.bytes, log: s.log}
	s.garbage.Store(-1)
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the store in %s: %w", opts.Dir, err), s.giveUp())
	}
	s.queue = queue.New(queue.Options{
		Backend:  s,
		Observer: opts.Observer,
		Revision: max(s.committed.Load(), s.mark.claimed.revision),
		Reserve:  s.claim,
		Admit:    s.space.admit,
	})
	s.background.Go(s.applyLoop)
	s.background.Go(s.collectLoop)
	s.background.Go(s.restLoop)
	return s, nil
}

// giveUp lets go of what a failed open holds.
func (s *Store) giveUp() error {
	s.endLife()
	var errs []error
	if s.journal != nil {
		errs = append(errs, s.journal.close())
	}
	errs = append(errs, s.closeDB())
	if s.mark != nil {
		errs = append(errs, s.mark.file.Close())
	}
	if s.lock != nil && s.db == nil { // else it ends with the process
		errs = append(errs, unlock(s.lock))
	}
	return errors.Join(errs...)
}

func (s *Store) open() (err error) {
	if fresh, err := isFresh(s.opts.Dir); err == nil && fresh && s.opts.MustExist {
		return fmt.Errorf("there is none: %w; name the folder that pawl runs with", fs.ErrNotExist)
	}
	for _, dir := range []string{s.opts.Dir, s.dataDir(), s.journalDir()} {
		if err := makeDir(dir, syncDir); err != nil {
			return err
		}
	}
	if s.lock, err = lock(s.opts.Dir); err != nil {
		return err
	}
	if err := whole(s.opts.Dir); err != nil {
		return err
	}
	fresh, err := isFresh(s.opts.Dir)
	if err != nil {
		return err
	}
	if err := s.unseal(fresh); err != nil {
		return err
	}
	noMark := s.openMark(fresh)
	if noMark != nil && !(s.opts.AcceptLoss && errors.Is(noMark, outbox.ErrLost)) {
		return noMark
	}
	if err := setAside(s.dataDir(), s.asideDir()); err != nil {
		return err
	}
	if err := s.openDB(false); err != nil {
		return err
	}
	doc, err := s.checkFormat(fresh)
	if err != nil {
		return err
	}
	segment, err := s.recover(&doc, noMark)
	if err != nil {
		return err
	}
	s.info.Epoch, s.info.Lossy, s.info.Directory = doc.Epoch, doc.Lossy, s.opts.Dir
	s.restored = doc.Restored
	s.readBackupMark(s.db)
	if err := s.migrate(doc); err != nil {
		return err
	}
	s.journal, err = newJournal(s.journalDir(), s.master, s.committed.Load(), segment)
	return err
}

// makeDir makes dir and what is missing above it, and sees to it that each is
// found after a power cut. What is there already is left alone: who runs pawl
// need not be able to read the directories above the store.
func makeDir(dir string, sync func(parent string) error) error {
	if there, err := exists(dir); err != nil || there {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeDir(parent, sync); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return sync(parent)
}

// isFresh tells that nothing was ever kept in dir. The mark is made first.
func isFresh(dir string) (bool, error) {
	paths, err := segmentPaths(filepath.Join(dir, journalName))
	if err != nil || len(paths) > 0 {
		return false, err
	}
	for _, name := range []string{filepath.Join(dataName, badger.ManifestFilename), markName} {
		if there, err := exists(filepath.Join(dir, name)); err != nil || there {
			return false, err
		}
	}
	return true, nil
}

// unseal opens the store's own key, or draws that of a fresh store.
func (s *Store) unseal(fresh bool) (err error) {
	if !fresh {
		s.master, err = masterOf(s.opts.Dir, s.opts.Key)
		return err
	}
	s.master, err = sealStore(s.opts.Dir, s.opts.Key)
	return err
}

// openMark opens the mark, or makes that of a fresh store. Its error wraps
// outbox.ErrLost where the mark is missing or damaged: nobody knows then whether
// all is there.
func (s *Store) openMark(fresh bool) (err error) {
	if fresh {
		s.mark, err = createMark(s.opts.Dir, 0, 0)
		return err
	}
	s.mark, err = openMark(s.opts.Dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errMark) {
		return fmt.Errorf("%w, or may have: its high-water mark can't be read, so that nobody knows whether all is there: %w; "+
			"restore a backup, or start with --accept-loss to go on with what is there", outbox.ErrLost, err)
	}
	return err
}

// openDB opens Badger. Files without a byte are what a kill leaves between
// making and filling them; Badger does not open over them.
func (s *Store) openDB(compactOnClose bool) error {
	if err := removeEmpty(s.dataDir()); err != nil {
		return err
	}
	if err := verifyTables(s.dataDir()); err != nil {
		return err
	}
	if err := s.space.floor(); err != nil {
		return err
	}
	if h := s.opts.hooks.open; h != nil {
		if err := h(); err != nil {
			return err
		}
	}
	db, err := badger.OpenManaged(badgerOptions(s.dataDir(), s.master, s.log).WithCompactL0OnClose(compactOnClose))
	if err != nil {
		return plainly(s.dataDir(), err)
	}
	s.dropOverwritten(db)
	s.db = db
	return nil
}

func removeEmpty(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if !strings.HasSuffix(e.Name(), ".mem") && !strings.HasSuffix(e.Name(), ".vlog") {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if info.Size() == 0 {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkFormat reads the format document, and refuses what this program can't
// read, before anything is written.
func (s *Store) checkFormat(fresh bool) (formatDoc, error) {
	doc, found, err := readFormat(s.db)
	if err != nil {
		return doc, err
	}
	if !found {
		// A crash before the first document was written leaves the same as a
		// store that lost everything; the mark tells them apart, in recover.
		doc = formatDoc{Format: newestFormat(s.opts.hooks.migrations), Epoch: rand.Text()}
		if fresh {
			err = writeFormat(s.db, doc)
		}
	}
	s.info.FormatFrom = doc.Format
	return doc, errors.Join(err, doc.check(s.opts.hooks.migrations))
}

// recover brings Badger up to the journal's end and empties that, unless
// something is missing that was acknowledged. It changes doc where that is
// accepted, and returns the number of the last segment.
func (s *Store) recover(doc *formatDoc, noMark error) (segment uint64, err error) {
	var whole uint64
	err = s.db.View(func(txn *badger.Txn) (err error) {
		s.ring, whole, err = readRing(txn)
		return err
	})
	if err != nil {
		return 0, err
	}
	found, err := replay(s.journalDir(), s.master, whole, func(*frame) error { return nil })
	if err != nil {
		return 0, err
	}
	claimed := max(found.claimed, s.ring.last)
	if s.mark != nil {
		claimed = max(claimed, s.mark.committed.revision)
	}
	base := max(found.newest, claimed)
	if lost := noMark != nil || claimed > found.reached; !lost {
		err = s.applyJournal(whole)
		if err == nil {
			err = errors.Join(writeFormat(s.db, *doc), os.RemoveAll(s.asideDir()))
		}
	} else if s.opts.AcceptLoss {
		s.log.Warn("the store lost acknowledged data, and that was accepted", "reached", found.reached, "lost_up_to", base)
		err = s.acceptLoss(doc, whole, base)
	} else {
		err = s.lossError(found.reached, claimed)
	}
	if err != nil {
		return 0, err
	}
	s.committed.Store(base)
	segment, err = removeSegments(found.segments)
	return segment, errors.Join(err, s.mark.commit(base))
}

// lossError says where a part of what is missing may be, too.
func (s *Store) lossError(reached, claimed uint64) error {
	err := lossError(reached, claimed)
	if there, _ := exists(s.asideDir()); there {
		err = fmt.Errorf("%w. Tables that %s does not name, and which may hold some of it, are kept in %s",
			err, filepath.Join(s.dataDir(), badger.ManifestFilename), s.asideDir())
	}
	return err
}

func lossError(reached, claimed uint64) error {
	return fmt.Errorf("%w: revisions %d to %d are missing, up to %d changes that had been confirmed to their senders; "+
		"the disk or its file system dropped or damaged them. Restore a backup, or start with --accept-loss to go on without them: "+
		"every target is then looked at before anything is written to it",
		outbox.ErrLost, reached+1, claimed, claimed-reached)
}

// applyJournal hands the frames above from to Badger, in portions.
func (s *Store) applyJournal(from uint64) error {
	l := newLayer(0)
	flush := func() error {
		if len(l.entries) == 0 {
			return nil
		}
		err := s.writeLayer(l)
		l = newLayer(0)
		return err
	}
	_, err := replay(s.journalDir(), s.master, from, func(f *frame) error {
		if f.last <= from {
			return nil
		}
		err := f.entries(func(key record.Key, e *entry) error {
			if old := l.entries[key]; old != nil {
				e = old.merged(e)
			}
			l.entries[key] = e
			l.bytes += e.size()
			return nil
		})
		l.last = f.last
		if err == nil && l.bytes >= applyBytes {
			err = flush()
		}
		return err
	})
	if err == nil {
		err = flush()
	}
	if h := s.opts.hooks.replayed; err == nil && h != nil {
		err = h()
	}
	if err != nil {
		return fmt.Errorf("replay the journal: %w", err)
	}
	return nil
}

// acceptLoss goes on at base, above all that was ever given out, in a new epoch.
// That is written first: once the journal is replayed, whoever dies here leaves
// a store in which nothing seems to be missing.
func (s *Store) acceptLoss(doc *formatDoc, whole, base uint64) error {
	doc.Epoch, doc.Lossy = rand.Text(), true
	if err := writeFormat(s.db, *doc); err != nil {
		return err
	}
	if err := s.applyJournal(whole); err != nil {
		return err
	}
	s.ring.restart()
	b := newBatch(s.db)
	defer b.discard()
	if err := s.ring.finish(b, base); err != nil {
		return err
	}
	if s.mark != nil {
		return nil
	}
	// Without a mark it is unknown how far revisions had been claimed.
	m, err := createMark(s.opts.Dir, base+2*claimStep, base)
	s.mark = m
	return err
}
