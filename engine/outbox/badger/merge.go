package badger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// chain is a full backup and the increments that go on from it, read as one: what
// the store held when the last one was made.
//
// All go along their keys in the same order. Which keys there are the last one says;
// what stands below a key that it keeps, the newest one does that has it.
type chain struct {
	parts []*link // oldest first
}

// link is one backup of a chain and the item that it stands at.
type link struct {
	*backupReader
	item item
	over bool
}

// openChain reads the heads and checks that each goes on from those before it.
func openChain(from []io.Reader, key *Key) (*chain, error) {
	c := &chain{}
	for i, r := range from {
		b, err := openBackup(r, key)
		if err == nil {
			err = c.follows(&b.head)
		}
		if err != nil {
			return nil, fmt.Errorf("backup %d of %d: %w", i+1, len(from), err)
		}
		c.parts = append(c.parts, &link{backupReader: b})
	}
	if len(c.parts) == 0 {
		return nil, fmt.Errorf("%w: there is none", ErrBackup)
	}
	return c, nil
}

// head is that of the newest backup.
func (c *chain) head() *BackupHead { return &c.parts[len(c.parts)-1].head }

func (c *chain) follows(next *BackupHead) error {
	if len(c.parts) == 0 {
		if next.Increment {
			return fmt.Errorf("%w: it is an increment from revision %d on; give the full backup first, then the increments in order", ErrBackup, next.Since)
		}
		return nil
	}
	before := c.head()
	switch {
	case !next.Increment:
		return fmt.Errorf("%w: it is a full one; give one full backup, then its increments", ErrBackup)
	case next.Epoch != before.Epoch:
		return fmt.Errorf("%w: it is of another store than the one before it", ErrBackup)
	case next.Since > before.Revision:
		return fmt.Errorf("%w: it goes on from revision %d, and the one before it ends at %d; an increment is missing between them", ErrBackup, next.Since, before.Revision)
	case next.Revision < before.Revision:
		return fmt.Errorf("%w: it ends at revision %d, before the one before it (%d); give them in order", ErrBackup, next.Revision, before.Revision)
	}
	return nil
}

// each calls fn for what the newest backup's store held, by key. Every backup is read
// to its end, so that each checksum is looked at.
func (c *chain) each(fn func(*item) error) error {
	for _, l := range c.parts {
		if err := l.advance(); err != nil {
			return err
		}
	}
	for newest := c.parts[len(c.parts)-1]; !newest.over; {
		key := newest.item.key
		found, err := c.newestOf(key)
		if err != nil {
			return err
		}
		if err := fn(found); err != nil {
			return err
		}
		for _, l := range c.parts {
			if !l.over && bytes.Equal(l.item.key, key) {
				if err := l.advance(); err != nil {
					return err
				}
			}
		}
	}
	return c.drain()
}

// newestOf brings every backup to key, and returns what the newest one says that does
// not merely keep it.
func (c *chain) newestOf(key []byte) (found *item, err error) {
	for _, l := range c.parts {
		for !l.over && bytes.Compare(l.item.key, key) < 0 { // removed since
			if err := l.advance(); err != nil {
				return nil, err
			}
		}
		if !l.over && bytes.Equal(l.item.key, key) && l.item.what != itemKept {
			found = &l.item
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%w: an increment keeps %s, and no backup before it holds that", ErrBackup, nameOf(key))
	}
	return found, nil
}

func (c *chain) drain() error {
	for _, l := range c.parts {
		for !l.over {
			if err := l.advance(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *link) advance() (err error) {
	l.item, err = l.next()
	if errors.Is(err, io.EOF) {
		l.over, err = true, nil
	}
	return err
}
