package badger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// Report is what Check found.
type Report struct {
	Directory string
	Format    int
	Epoch     string
	Lossy     bool      // acknowledged data was lost, and that was accepted; or it was restored
	Restored  time.Time // when it was made of a backup or an export; zero: it was not
	Revision  uint64    // newest that is there

	Resources int // desired states, tombstones included
	Statuses  int
	Documents int
	Bytes     int64 // of all values
	Frames    int   // in the journal: groups that Badger may not have yet

	// Problems says what is wrong, where, and what to do; empty: nothing is.
	// At most 1,000 are listed, and Omitted counts the others.
	Problems []string
	Omitted  int
}

const maxProblems = 1000

func (r *Report) problem(format string, args ...any) {
	if len(r.Problems) == maxProblems {
		r.Omitted++
		return
	}
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// Check reads everything in the store of dir and says what is wrong. It changes
// nothing there, and opens a sealed store with key: Badger, which repairs as it opens, gets copies of its logs and
// links to its tables in a temporary directory. progress, where it is not nil,
// is told how many of the keys are done.
//
// # Errors
//
// An error says that the check could not be made: there is no store, or another
// process has it open (outbox.ErrLocked), or key does not fit (ErrKey). Damage is in the report.
func Check(ctx context.Context, dir string, key *Key, progress func(done, total int)) (Report, error) {
	r := Report{Directory: dir}
	fail := func(err error) (Report, error) { return r, fmt.Errorf("check the store in %s: %w", dir, err) }
	if err := whole(dir); err != nil {
		return fail(err)
	}
	if fresh, err := isFresh(dir); err != nil {
		return fail(err)
	} else if fresh {
		return fail(errors.New("there is none; name the directory that pawl runs with"))
	}
	held, err := lock(dir)
	if err != nil {
		return fail(err)
	}
	defer unlock(held)
	master, err := masterOf(dir, key)
	if err != nil {
		return fail(err)
	}
	work, err := os.MkdirTemp("", "pawl-check-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(work)
	if err := shadow(filepath.Join(dir, dataName), work); err != nil {
		return fail(err)
	}
	if progress == nil {
		progress = func(int, int) {}
	}
	if err := r.run(ctx, dir, work, master, progress); err != nil {
		return fail(err)
	}
	return r, nil
}

// shadow makes a directory that Badger may write to, of one that it may not.
func shadow(from, to string) error {
	list, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	from, err = filepath.Abs(from)
	if err != nil {
		return err
	}
	logs := slices.DeleteFunc(slices.Clone(list), func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) != ".vlog" })
	for _, e := range list {
		name := e.Name()
		newest := len(logs) > 0 && name == logs[len(logs)-1].Name()
		info, err := e.Info()
		if err != nil {
			return err
		}
		// Badger cuts the newest value log, and older ones that hold nothing.
		left := filepath.Ext(name) == ".vlog" && !newest && info.Size() > 1<<20
		switch {
		case name == "LOCK" || name == "DISCARD" || !e.Type().IsRegular():
		case filepath.Ext(name) == ".sst" || left:
			err = os.Symlink(filepath.Join(from, name), filepath.Join(to, name))
		default:
			err = copyFile(filepath.Join(from, name), filepath.Join(to, name))
		}
		if err != nil {
			return err
		}
	}
	return removeEmpty(to)
}

// copyFile leaves holes where there are some: logs are mostly that.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	size, err := eachData(in, func(b []byte, offset int64) error {
		_, err := out.WriteAt(b, offset)
		return err
	})
	if err != nil {
		return err
	}
	return out.Truncate(size)
}

// eachData calls fn for the parts of f that are no holes, and returns f's size.
func eachData(f *os.File, fn func(b []byte, offset int64) error) (size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 64<<10)
	for offset := int64(0); offset < info.Size(); {
		offset = nextData(f, offset, info.Size())
		n, err := f.ReadAt(buf, offset)
		if err != nil && err != io.EOF {
			return 0, err
		}
		if n == 0 {
			break
		}
		if err := fn(buf[:n], offset); err != nil {
			return 0, err
		}
		offset += int64(n)
	}
	return info.Size(), nil
}

func (r *Report) run(ctx context.Context, dir, work string, master *Key, progress func(done, total int)) error {
	var marked uint64
	m, err := openMark(dir)
	if errors.Is(err, outbox.ErrFormat) {
		r.problem("%v", err)
		return nil
	}
	if err != nil {
		r.problem("the high-water mark can't be read (%v): nobody knows whether all is there; restore a backup, or start with --accept-loss", err)
	} else {
		marked = m.committed.revision
		if err := m.file.Close(); err != nil {
			return err
		}
	}
	if err := verifyTables(work); err != nil {
		r.problem("%v", err)
		return nil
	}
	opts := badgerOptions(work, master, slog.New(slog.DiscardHandler)).WithNumCompactors(0)
	db, err := badger.OpenManaged(opts)
	if err != nil {
		r.problem("%v", plainly(filepath.Join(dir, dataName), err))
		return nil
	}
	defer db.Close()
	applied := r.documents(db, marked)
	if err := r.journal(filepath.Join(dir, journalName), master, applied, marked); err != nil {
		return err
	}
	if err := db.VerifyChecksum(); err != nil {
		r.problem("%v", plainly(filepath.Join(dir, dataName), err))
	}
	return r.values(ctx, db, progress)
}

// documents checks what speaks of the store as a whole, and returns how far
// Badger has everything.
func (r *Report) documents(db *badger.DB, marked uint64) (whole uint64) {
	doc, found, err := readFormat(db)
	switch {
	case err != nil:
		r.problem("the format document: %v", err)
	case !found && marked > 0:
		r.problem("the format document is missing; restore a backup")
	case doc.Format > formatNumber:
		r.problem("the store has format %d, and this program reads up to %d", doc.Format, formatNumber)
	}
	r.Format, r.Epoch, r.Lossy, r.Restored = doc.Format, doc.Epoch, doc.Lossy, doc.Restored
	var newest ring
	err = db.View(func(txn *badger.Txn) (err error) {
		newest, whole, err = readRing(txn)
		return err
	})
	if err != nil {
		r.problem("the batch documents: %v", err)
	}
	if whole < newest.last {
		r.problem("a batch between revisions %d and %d is missing from a log", whole, newest.last)
	}
	r.Revision = whole
	return whole
}

func (r *Report) journal(dir string, master *Key, applied, marked uint64) error {
	found, err := replay(dir, master, applied, func(f *frame) error {
		err := f.entries(func(key record.Key, e *entry) error {
			var errs []error
			if e.desiredVal != nil {
				errs = append(errs, second(openDesired(appendKey(nil, kindDesired, key), e.desiredVal)))
			}
			if e.statusVal != nil {
				errs = append(errs, second(openStatus(appendKey(nil, kindStatus, key), e.statusVal)))
			}
			return errors.Join(errs...)
		})
		if err != nil {
			r.problem("the journal, revisions up to %d: %v", f.last, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.Frames = found.frames
	for _, p := range found.problems {
		r.problem("the journal: %s", p)
	}
	if claimed := max(found.claimed, marked); claimed > found.reached {
		r.problem("%v", lossError(found.reached, claimed))
	}
	r.Revision = max(r.Revision, found.reached)
	return nil
}

// values reads every value.
func (r *Report) values(ctx context.Context, db *badger.DB, progress func(done, total int)) error {
	total, done := 0, 0
	scan := func(prefetch bool, fn func(*badger.Item)) error {
		return db.View(func(txn *badger.Txn) error {
			opts := badger.DefaultIteratorOptions
			opts.PrefetchValues = prefetch
			it := txn.NewIterator(opts)
			defer it.Close()
			for it.Rewind(); it.Valid() && ctx.Err() == nil; it.Next() {
				fn(it.Item())
			}
			return ctx.Err()
		})
	}
	if err := scan(false, func(*badger.Item) { total++ }); err != nil {
		return err
	}
	return scan(true, func(item *badger.Item) {
		err := item.Value(func(value []byte) error { return r.value(item, value) })
		if err != nil {
			r.problem("%v; the others are as good as ever. Restore a backup, or forget this one", err)
		}
		if done++; done%1024 == 0 || done == total {
			progress(done, total)
		}
	})
}

func (r *Report) value(item *badger.Item, value []byte) (err error) {
	key := item.Key()
	r.Bytes += int64(len(value))
	switch key[0] {
	case kindDesired:
		r.Resources++
		d, err := openDesired(key, value)
		if err != nil {
			return err
		}
		if d.Generation != item.ExpiresAt()-neverExpires || flagsOf(&d) != item.UserMeta() {
			return unreadable(key, "what stands beside it differs from it")
		}
	case kindStatus:
		r.Statuses++
		_, err = openStatus(key, value)
	case kindMeta:
		if strings.HasPrefix(string(key), docUser) {
			r.Documents++
		}
		_, _, err = open(key, value)
	default:
		return fmt.Errorf("%w: the key %q is none of ours", outbox.ErrDamaged, key)
	}
	if err == nil && key[0] != kindMeta {
		_, err = parseKey(key)
	}
	return err
}
