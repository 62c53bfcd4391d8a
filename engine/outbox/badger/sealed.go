package badger

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
)

// A sealed store has a key of its own, the master, drawn when it was made. What the
// operator holds seals nothing but that, in the file keysName: so the operator's key
// is changed without rewriting the store. From the master come the key of Badger's
// registry, whose own keys seal tables and logs and change every ten days, and one for
// each segment of the journal. The mark and the lock hold numbers and no content, and
// are not sealed.

// keysFile is the file keysName.
type keysFile struct {
	Format int    `json:"format"`
	Key    string `json:"key"`    // fingerprint of the operator's
	ID     string `json:"id"`     // random, anew each time the file is written
	Master []byte `json:"master"` // sealed with the operator's
}

const keysFormat = 1

// unsealHint is how a store is sealed, or given up being so.
const unsealHint = "a store is sealed, or no longer so, by backing it up and restoring it with the other setting"

// masterOf opens the master of the store in dir with the operator's key; both are nil
// where the store is not sealed.
func masterOf(dir string, key *Key) (*Key, error) {
	path := filepath.Join(dir, keysName)
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && key == nil:
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: a key is given, and the store is not sealed; %s", ErrKey, unsealHint)
	case err != nil:
		return nil, err
	}
	var f keysFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("%w: %s, without which nothing in it can be opened, can't be read: restore a backup", outbox.ErrDamaged, path)
	}
	switch {
	case f.Format > keysFormat:
		return nil, fmt.Errorf("%w: its keys have format %d; use the program that wrote them, or a newer one", outbox.ErrFormat, f.Format)
	case key == nil:
		return nil, fmt.Errorf("%w: the store is sealed with the key %s, and none is given; name that key's file with store.encryption_key_file", ErrKey, f.Key)
	case key.String() != f.Key:
		return nil, fmt.Errorf("%w: the store is sealed with the key %s, and the one given is %s", ErrKey, f.Key, key)
	}
	secret, err := key.keysBox(f.ID).open(f.Master, []byte(keysName))
	if err != nil || len(secret) != keyBytes {
		return nil, fmt.Errorf("%w: what %s holds was changed: restore a backup", outbox.ErrDamaged, path)
	}
	return newKey(secret), nil
}

// sealStore draws a master for a new store in dir. Without a key it is not sealed, and
// the keys of one that never came to be are removed.
func sealStore(dir string, key *Key) (*Key, error) {
	if key == nil {
		err := os.Remove(filepath.Join(dir, keysName))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	secret := make([]byte, keyBytes)
	rand.Read(secret) // never fails
	master := newKey(secret)
	return master, master.writeTo(dir, key)
}

// writeTo replaces the file of keys.
func (master *Key) writeTo(dir string, key *Key) error {
	f := keysFile{Format: keysFormat, Key: key.String(), ID: rand.Text()}
	f.Master = key.keysBox(f.ID).seal(nil, master.secret[:], []byte(keysName))
	raw, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, keysName), append(raw, '\n'))
}

// RotateKey makes the store in dir one that next opens instead of key. What the store
// holds is not rewritten; whoever has a copy of the folder from before, and key, can
// read that copy still.
func RotateKey(dir string, key, next *Key) error {
	fail := func(err error) error { return fmt.Errorf("change the key of the store in %s: %w", dir, err) }
	if key == nil || next == nil {
		return fail(fmt.Errorf("%w: both keys are needed; %s", ErrKey, unsealHint))
	}
	held, err := lock(dir)
	if err != nil {
		return fail(err)
	}
	defer unlock(held)
	master, err := masterOf(dir, key)
	if err == nil {
		err = master.writeTo(dir, next)
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

// Fingerprint returns that of the key that the store in dir is sealed with; "": it is
// not sealed.
func Fingerprint(dir string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, keysName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var f keysFile
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	return f.Key, err
}

func (k *Key) keysBox(id string) *box { return newBox(k.derive("keys", []byte(id))) }

// segmentBox seals the bodies of one segment's frames. It is nil where k is.
func (k *Key) segmentBox(n nonce, number uint64) *box {
	if k == nil {
		return nil
	}
	return newBox(k.derive("journal", binary.LittleEndian.AppendUint64(n[:], number)))
}

// sealedOptions are Badger's settings for a store with that master.
func (k *Key) sealedOptions(o badger.Options) badger.Options {
	if k == nil {
		return o
	}
	// What is sealed can't be read through the page cache alone: an index and a block
	// are opened once, not at each look.
	const indexCacheBytes, blockCacheBytes = 64 << 20, 32 << 20
	return o.WithEncryptionKey(k.derive("tables", nil)).WithIndexCacheSize(indexCacheBytes).WithBlockCacheSize(blockCacheBytes)
}
