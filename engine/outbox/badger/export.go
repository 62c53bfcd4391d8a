package badger

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// ExportOptions of Export.
type ExportOptions struct {
	Status bool // what is known of each resource as well
	// Progress is told now and then how many resources are done. Defaults to nothing.
	Progress func(resources int)
}

// Export writes to w what is desired of every resource, as of one moment, as Backup
// does: one JSON object a line. What can't be read has a line that says so.
func (s *Store) Export(ctx context.Context, w io.Writer, o ExportOptions) (ExportEnd, error) {
	fail := func(err error) (ExportEnd, error) { return ExportEnd{}, fmt.Errorf("export the store: %w", err) }
	c, err := s.cut()
	if err != nil {
		return fail(err)
	}
	defer c.release()
	out := newExporter(w, o)
	out.line(ExportHead{Kind: exportKind, Format: exportFormat, Epoch: s.info.Epoch, Revision: c.revision, Made: time.Now().UTC().Truncate(time.Second)})
	err = s.withDB(func(db *badger.DB) error {
		txn := db.NewTransactionAt(c.version, false)
		defer txn.Discard()
		var p pace
		n := 0
		return eachRecord(txn, func(key record.Key, rec *outbox.Record, damage error) error {
			if n++; n%paceItems == 0 {
				if err := s.yield(ctx, &p); err != nil {
					return err
				}
			}
			return out.resource(key, rec, damage)
		})
	})
	if err != nil {
		return fail(err)
	}
	if err := out.finish(); err != nil {
		return fail(err)
	}
	return out.end, nil
}

// eachRecord calls fn for every record that txn sees, by key, with what could be read
// of it and why the rest could not. A key that is none of ours has an empty name.
func eachRecord(txn *badger.Txn, fn func(key record.Key, rec *outbox.Record, damage error) error) error {
	opts := badger.DefaultIteratorOptions
	opts.PrefetchValues = false
	opts.Prefix = []byte{kindDesired, 0} // every record has this half; see newEntry
	it := txn.NewIterator(opts)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		var rec outbox.Record
		key, damage := parseKey(it.Item().Key())
		if damage == nil {
			rec, damage = readHalves(txn, it.Item(), key)
		}
		if err := fn(key, &rec, damage); err != nil {
			return err
		}
	}
	return nil
}

// readHalves reads what can be read of a record.
func readHalves(txn *badger.Txn, desired *badger.Item, key record.Key) (rec outbox.Record, damage error) {
	damage = readValue(desired, func(value []byte) (err error) {
		rec.Desired, err = openDesired(desired.Key(), value)
		return err
	})
	below := appendKey(nil, kindStatus, key)
	value, err := getValue(txn, below)
	if err == nil && value != nil {
		rec.Status, err = openStatus(below, value)
	}
	return rec, errors.Join(damage, err)
}

// exporter writes the lines of an export.
type exporter struct {
	ExportOptions
	to  *bufio.Writer
	enc *json.Encoder
	end ExportEnd
	err error // the first one; nothing is written after it
}

func newExporter(w io.Writer, o ExportOptions) *exporter {
	e := &exporter{ExportOptions: o, to: bufio.NewWriterSize(w, 256<<10)}
	e.enc = json.NewEncoder(e.to)
	e.enc.SetEscapeHTML(false)
	return e
}

func (e *exporter) line(v any) {
	if e.err == nil {
		e.err = e.enc.Encode(v)
	}
}

// resource writes one line, of what could be read. What others keep under names that
// are no sink's, as sagas do, is no resource: an import would refuse it.
func (e *exporter) resource(key record.Key, rec *outbox.Record, damage error) error {
	if key.Name != "" && key.Validate() != nil {
		return e.err
	}
	l := lineOf(key, rec, e.Status)
	if damage != nil {
		l.Damaged = damage.Error()
		e.end.Damaged++
	}
	if rec.Desired.Generation != 0 {
		e.end.Resources++
	} else if damage == nil && l.Status == nil {
		return e.err // nothing is desired of it
	}
	e.line(l)
	if e.Progress != nil && e.end.Resources%4096 == 0 {
		e.Progress(e.end.Resources)
	}
	return e.err
}

func (e *exporter) finish() error {
	e.line(struct {
		End ExportEnd `json:"end"`
	}{e.end})
	return errors.Join(e.err, e.to.Flush())
}
