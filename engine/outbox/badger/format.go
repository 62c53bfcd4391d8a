package badger

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
)

// formatNumber is the format of the whole directory: keys, envelope, journal,
// mark. It grows when a program of the old one would misread what the new one
// writes; a new field in a record does not make it grow.
const formatNumber = 2

// formatDoc is the document docFormat, in JSON.
type formatDoc struct {
	Format int    `json:"format"`
	Epoch  string `json:"epoch"`           // see outbox.Info
	Lossy  bool   `json:"lossy,omitempty"` // see outbox.Info
	// Restored is when the store was made of a backup or an export; zero: it was not.
	Restored time.Time `json:"restored,omitzero"`
}

// migration brings a store from one format to the next. It finds all in Badger
// and nothing in the journal, since Open replays that first: a program reads the
// journal, the mark and the batch documents of every format that it leads from.
// It is run again when the process dies within, so that it must bear that.
type migration struct {
	from int
	what string // for the log
	run  func(*badger.DB) error
}

// migrations lists them by from. Format 1 is the first. Format 2 may be sealed, which
// a program of format 1 would take for damage; else the two are the same.
var migrations = []migration{
	{from: 1, what: "a store may be sealed", run: func(*badger.DB) error { return nil }},
}

// readFormat returns the document, and whether there is one.
func readFormat(db *badger.DB) (doc formatDoc, found bool, err error) {
	err = db.View(func(txn *badger.Txn) error {
		key := []byte(docFormat)
		value, err := getValue(txn, key)
		if err != nil || value == nil {
			return err
		}
		found = true
		if len(value) > 0 && value[0] > sealFormat {
			return fmt.Errorf("%w: it was written by a newer one; use that, or export from there", outbox.ErrFormat)
		}
		_, body, err := open(key, value)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(body, &doc); err != nil {
			return fmt.Errorf("%w: the format document: %w", outbox.ErrDamaged, err)
		}
		return nil
	})
	return doc, found, err
}

func writeFormat(db *badger.DB, doc formatDoc) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	return setDoc(db, []byte(docFormat), b)
}

// newestFormat is where the migrations lead.
func newestFormat(table []migration) int {
	newest := formatNumber
	for _, m := range table {
		newest = max(newest, m.from+1)
	}
	return newest
}

func errNewer(found, newest int) error {
	return fmt.Errorf("%w: it has format %d, and this program reads up to %d; use the program that wrote it, or a newer one",
		outbox.ErrFormat, found, newest)
}

// check refuses a format that the migrations don't lead from.
func (d formatDoc) check(table []migration) error {
	newest := newestFormat(table)
	if d.Format > newest || d.Format < 1 {
		return errNewer(d.Format, newest)
	}
	for n := d.Format; n < newest; n++ {
		if !slices.ContainsFunc(table, func(m migration) bool { return m.from == n }) {
			return fmt.Errorf("%w: nothing leads from format %d to %d; open it with an older program first",
				outbox.ErrFormat, n, newest)
		}
	}
	return nil
}

// migrate brings the store to the newest format.
func (s *Store) migrate(doc formatDoc) error {
	for _, m := range s.opts.hooks.migrations {
		if m.from != doc.Format {
			continue
		}
		s.log.Info("the store is brought to a newer format", "from", m.from, "to", m.from+1, "what", m.what)
		if err := m.run(s.db); err != nil {
			return fmt.Errorf("bring the store from format %d to %d (%s): %w", m.from, m.from+1, m.what, err)
		}
		doc.Format = m.from + 1
		if err := writeFormat(s.db, doc); err != nil {
			return err
		}
	}
	return nil
}
