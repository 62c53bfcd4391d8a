package badger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
)

// RestoreOptions of Restore and Import. Dir must be set; the rest has defaults.
type RestoreOptions struct {
	Dir string // made where it is missing; there must be no store in it

	// Key seals the new store. Defaults to none: it is not sealed.
	Key *Key
	// BackupKey opens sealed backups. Defaults to Key.
	BackupKey *Key
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// Progress is told now and then how many records are done. Defaults to nothing.
	Progress func(records int)
}

func (o *RestoreOptions) setDefaults() {
	if o.BackupKey == nil {
		o.BackupKey = o.Key
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = func(int) {}
	}
}

// Restored says what a restore or an import made.
type Restored struct {
	Epoch    string // the new store's
	Revision uint64 // its first one; see firstRevision
	Records  int    // desired states, tombstones included
	Damaged  []string
	// From is the revision of the original that it holds all of; 0 for an import.
	From uint64
	Made time.Time // when the backup was
}

// unfinishedName is a file that is there while a restore is under way. A store with
// it has not got everything and never will.
const unfinishedName = "unfinished"

// maxPutsPerSecond is more than a store can ever give out revisions for.
const maxPutsPerSecond = 1 << 17

// Restore makes a store in o.Dir of a full backup and the increments that go on from
// it, in order. The store has a new epoch and behaves as R67 says: its sinks are
// suspended, and every resource is looked at before it is written to.
//
// # Errors
//
// They come from the readers and ctx, wrap ErrKey where a backup can't be opened, or say
// what is wrong with a backup, or with the folder. What was made is removed again.
func Restore(ctx context.Context, o RestoreOptions, backups ...io.Reader) (Restored, error) {
	o.setDefaults()
	var done Restored
	c, err := openChain(backups, o.BackupKey)
	if err == nil {
		head := c.head()
		done.From, done.Made = head.Revision, head.Made
		done.Revision = firstRevision(head.Revision, o.Now().Sub(head.Made))
		err = build(o, &done, func(b *builder) error {
			return c.each(func(it *item) error {
				if b.items%1024 == 0 && ctx.Err() != nil {
					return ctx.Err()
				}
				return b.add(it)
			})
		})
	}
	if err != nil {
		return done, fmt.Errorf("restore the store in %s: %w", o.Dir, err)
	}
	return done, nil
}

// firstRevision is above every revision that the original can have given out in that
// time since its backup was made: what it sent after that has other generations.
func firstRevision(revision uint64, since time.Duration) uint64 {
	seconds := uint64(max(since, 0)/time.Second) + 1
	return revision + seconds*maxPutsPerSecond + 2*claimStep
}

// builder fills a store that is being made.
type builder struct {
	o      *RestoreOptions
	done   *Restored
	db     *badger.DB
	master *Key // the new store's
	batch  *batch
	items  int
}

// build makes a store of what fill adds. The mark comes last, and until then a file says that the store is
// unfinished.
func build(o RestoreOptions, done *Restored, fill func(*builder) error) (err error) {
	made, err := vacant(o.Dir)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unmake(o.Dir, made))
		}
	}()
	unfinished := filepath.Join(o.Dir, unfinishedName)
	if err := writeFile(unfinished, nil); err != nil {
		return err
	}
	held, err := lock(o.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock(held)) }()
	data := filepath.Join(o.Dir, dataName)
	if err := errors.Join(makeDir(data, syncDir), makeDir(filepath.Join(o.Dir, journalName), syncDir)); err != nil {
		return err
	}
	master, err := sealStore(o.Dir, o.Key)
	if err != nil {
		return err
	}
	b := &builder{o: &o, done: done, master: master}
	if err := errors.Join(b.fill(data, fill), syncFiles(data)); err != nil {
		return err
	}
	m, err := createMark(o.Dir, done.Revision, done.Revision)
	if err != nil {
		return err
	}
	return errors.Join(m.file.Close(), os.Remove(unfinished), syncDir(o.Dir))
}

// fill opens Badger, lets fn add all there is, and closes it.
func (b *builder) fill(data string, fn func(*builder) error) (err error) {
	if b.db, err = badger.OpenManaged(badgerOptions(data, b.master, slog.New(slog.DiscardHandler)).WithSyncWrites(false)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.db.Close()) }()
	b.batch = newBatch(b.db)
	defer func() { b.batch.discard() }()
	if err := fn(b); err != nil {
		return err
	}
	r := ring{}
	if err := r.finish(b.batch, b.done.Revision); err != nil {
		return err
	}
	b.done.Epoch = rand.Text()
	doc := formatDoc{Format: formatNumber, Epoch: b.done.Epoch, Lossy: true, Restored: b.o.Now().UTC().Truncate(time.Second)}
	return writeFormat(b.db, doc)
}

// add adds one item; its memory is the caller's again afterwards.
func (b *builder) add(it *item) error {
	b.items++
	if it.what == itemDamaged {
		if len(b.done.Damaged) < maxNamed {
			b.done.Damaged = append(b.done.Damaged, nameOf(it.key))
		}
	} else if _, _, err := open(it.key, it.value); err != nil {
		return fmt.Errorf("%w: %w", ErrBackup, err)
	}
	if it.key[0] == kindDesired {
		b.count()
	}
	e := &badger.Entry{Key: append([]byte(nil), it.key...), Value: append([]byte(nil), it.value...), UserMeta: it.meta, ExpiresAt: it.expires}
	return b.batch.do(func(txn *badger.Txn) error { return txn.SetEntry(e) })
}

// count counts a record.
func (b *builder) count() {
	if b.done.Records++; b.done.Records%4096 == 0 {
		b.o.Progress(b.done.Records)
	}
}

// syncFiles makes what is in dir durable: Badger was told not to do so as it went.
func syncFiles(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

// vacant checks that no store is in dir, and makes it; made tells that it was not there.
func vacant(dir string) (made bool, err error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return true, makeDir(dir, syncDir)
	}
	if err != nil {
		return false, err
	}
	for _, e := range list {
		switch e.Name() {
		case dataName, journalName, markName, asideName, keysName, unfinishedName:
			return false, fmt.Errorf("%w: there is a store already; nothing is overwritten: name another folder, or move that one away", errOccupied)
		}
	}
	return false, nil
}

var errOccupied = errors.New("the folder is not free")

// unmake removes what build made.
func unmake(dir string, made bool) error {
	if made {
		return os.RemoveAll(dir)
	}
	var errs []error
	for _, name := range []string{dataName, journalName, markName, keysName, lockName, unfinishedName} {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// whole refuses a store whose restore did not come to its end.
func whole(dir string) error {
	there, err := exists(filepath.Join(dir, unfinishedName))
	if err == nil && there {
		err = fmt.Errorf("%w: a restore into it did not come to its end; remove the folder and restore again", outbox.ErrDamaged)
	}
	return err
}
