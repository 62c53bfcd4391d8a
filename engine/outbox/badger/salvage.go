package badger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/internal/queue"
	"github.com/pawlsync/pawl/engine/record"
)

// Salvaged says what came of a salvage.
type Salvaged struct {
	Export ExportEnd
	// Left says what had to be left out as a whole: tables, logs. Records in it are
	// missing from the export, or older there than they were.
	Left []string
}

// Salvage writes to w what can be read in the store of dir, as Export does, however
// damaged it is. It changes nothing there. key is that of a sealed store.
//
// # Errors
//
// An error says that nothing could be read, or that there is no store.
func Salvage(ctx context.Context, dir string, key *Key, w io.Writer, o ExportOptions) (Salvaged, error) {
	var done Salvaged
	fail := func(err error) (Salvaged, error) {
		return done, fmt.Errorf("salvage the store in %s: %w", dir, err)
	}
	if fresh, err := isFresh(dir); err != nil {
		return fail(err)
	} else if fresh {
		return fail(errors.New("there is none; name the folder that pawl runs with"))
	}
	held, err := lock(dir)
	if err != nil {
		return fail(err)
	}
	defer unlock(held)
	work, err := os.MkdirTemp("", "pawl-check-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(work)
	master, err := masterOf(dir, key)
	if err != nil {
		return fail(err)
	}
	x := &salvage{dir: dir, work: work, master: master, done: &done}
	if err := x.open(); err != nil {
		return fail(err)
	}
	defer x.db.Close()
	if err := x.export(ctx, newExporter(w, o)); err != nil {
		return fail(err)
	}
	return done, nil
}

// salvage is one at work. work is a folder of copies that may be changed.
type salvage struct {
	dir, work string
	master    *Key
	db        *badger.DB
	journal   *layer // what the journal has, newest state by key
	done      *Salvaged
}

func (x *salvage) leave(format string, args ...any) {
	x.done.Left = append(x.done.Left, strings.ReplaceAll(fmt.Sprintf(format, args...), x.work, filepath.Join(x.dir, dataName)))
}

// open opens Badger over copies, without what is damaged as a whole: each time it
// refuses, the table that it names is left out.
func (x *salvage) open() error {
	if err := shadow(filepath.Join(x.dir, dataName), x.work); err != nil {
		return err
	}
	tables, err := listedTables(x.work)
	if errors.Is(err, outbox.ErrDamaged) && x.master == nil { // else it says how tables are sealed
		x.leave("the list of tables, %s: every table that is there counts, also those that were replaced, "+
			"so that what was removed long ago may be there again", filepath.Join(x.work, badger.ManifestFilename))
		tables, err = x.allTables()
	}
	if err != nil {
		return err
	}
	for path := range tables {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			x.leave("the table %s is missing", path)
			delete(tables, path)
		} else if err := verifyTable(path); err != nil {
			x.leave("the table %s: %v", path, err)
			delete(tables, path)
		}
	}
	for {
		if err := writeManifest(x.work, tables); err != nil {
			return err
		}
		err := x.openDB()
		if err == nil {
			return x.readJournal()
		}
		if !x.without(err, tables) {
			return plainly(filepath.Join(x.dir, dataName), err)
		}
	}
}

func (x *salvage) openDB() (err error) {
	opts := badgerOptions(x.work, x.master, slog.New(slog.DiscardHandler)).WithNumCompactors(0).WithNumLevelZeroTablesStall(1 << 20)
	x.db, err = badger.OpenManaged(opts)
	return err
}

// without leaves out what err is about, and reports whether there was something.
func (x *salvage) without(err error, tables map[string]uint64) bool {
	if found := badTable.FindStringSubmatch(err.Error()); found != nil {
		path := filepath.Join(x.work, found[1])
		if _, listed := tables[path]; listed {
			x.leave("the table %s: what it holds does not match its checksums", path)
			delete(tables, path)
			return true
		}
	}
	if found := badLog.FindString(err.Error()); found != "" {
		if there, _ := exists(filepath.Join(x.work, found)); there {
			x.leave("the log %s: %v", filepath.Join(x.work, found), err)
			return os.Remove(filepath.Join(x.work, found)) == nil
		}
	}
	registry := filepath.Join(x.work, badger.KeyRegistryFileName)
	if there, _ := exists(registry); there && x.master == nil && strings.Contains(err.Error(), "sanity text") {
		return os.Remove(registry) == nil // of a store that is not sealed it holds nothing
	}
	return false
}

// allTables are those in the folder, and those that Open has moved aside.
func (x *salvage) allTables() (map[string]uint64, error) {
	aside, err := filepath.Glob(filepath.Join(x.dir, asideName, "*.sst"))
	if err != nil {
		return nil, err
	}
	for _, path := range aside {
		absolute, err := filepath.Abs(path)
		if err == nil {
			err = os.Symlink(absolute, filepath.Join(x.work, filepath.Base(path)))
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	paths, err := filepath.Glob(filepath.Join(x.work, "*.sst"))
	tables := map[string]uint64{}
	for _, path := range paths {
		tables[path] = 0
	}
	return tables, err
}

// writeManifest writes a MANIFEST that names tables, all in level 0, where Badger asks
// each of them: among several versions of a key the newest counts.
//
//	magic    8 bytes "Bdgr", 0, 0, version, big endian
//	length   4 bytes, big endian
//	checksum 4 bytes, big endian, CRC-32C of the changes
//	changes  protobuf
func writeManifest(dir string, tables map[string]uint64) error {
	const version = 8
	set := &pb.ManifestChangeSet{}
	for path, key := range tables {
		id, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), ".sst"), 10, 64)
		if err != nil {
			continue // no table of Badger's
		}
		set.Changes = append(set.Changes, &pb.ManifestChange{Id: id, Op: pb.ManifestChange_CREATE, KeyId: key})
	}
	changes, err := proto.Marshal(set)
	if err != nil {
		return err
	}
	b := append([]byte("Bdgr"), 0, 0, 0, version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(changes)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(changes, castagnoli))
	path := filepath.Join(dir, badger.ManifestFilename)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, append(b, changes...), 0o600)
}

// readJournal gathers what the journal has above what Badger is known to have.
func (x *salvage) readJournal() error {
	x.journal = newLayer(0)
	found, err := replay(filepath.Join(x.dir, journalName), x.master, 0, func(f *frame) error {
		return f.entries(func(key record.Key, e *entry) error {
			if old := x.journal.entries[key]; old != nil {
				e = old.merged(e)
			}
			x.journal.entries[key] = e
			return nil
		})
	})
	for _, p := range found.problems {
		x.leave("the journal: %s", p)
	}
	return err
}

func (x *salvage) export(ctx context.Context, out *exporter) error {
	doc, _, _ := readFormat(x.db) // where it is damaged the export has no epoch
	head := ExportHead{Kind: exportKind, Format: exportFormat, Epoch: doc.Epoch, Made: time.Now().UTC().Truncate(time.Second), Salvaged: true}
	if m, err := openMark(x.dir); err == nil {
		head.Revision = m.claimed.revision
		if err := m.file.Close(); err != nil {
			return err
		}
	}
	out.line(head)
	err := x.db.View(func(txn *badger.Txn) error {
		return eachRecord(txn, func(key record.Key, rec *outbox.Record, damage error) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			newer := x.journal.entries[key]
			if newer == nil {
				return out.resource(key, rec, damage)
			}
			delete(x.journal.entries, key)
			return newer.over(key, rec, damage, out)
		})
	})
	for key, e := range x.journal.entries {
		if err == nil {
			err = e.over(key, &outbox.Record{}, nil, out)
		}
	}
	err = errors.Join(err, out.finish())
	x.done.Export = out.end
	return err
}

// over writes what e makes of rec, unless rec is newer.
func (e *entry) over(key record.Key, rec *outbox.Record, damage error, out *exporter) error {
	var errs []error
	if e.desired == queue.Drop {
		if rec.Desired.Generation > e.revision { // it was put again since
			return out.resource(key, rec, damage)
		}
		return nil
	}
	if e.desired == queue.Set && e.generation >= rec.Desired.Generation {
		d, err := openDesired(appendKey(nil, kindDesired, key), e.desiredVal)
		if err != nil {
			errs = append(errs, err)
		} else {
			rec.Desired, damage = d, nil
		}
	}
	if e.status == queue.Set {
		st, err := openStatus(appendKey(nil, kindStatus, key), e.statusVal)
		if err == nil && !st.UpdatedAt.Before(rec.Status.UpdatedAt) {
			rec.Status = st
		}
		errs = append(errs, err)
	}
	return out.resource(key, rec, errors.Join(append(errs, damage)...))
}
