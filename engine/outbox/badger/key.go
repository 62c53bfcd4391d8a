package badger

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
)

// ErrKey is wrapped by the errors about a key that is missing, wrong or no key.
var ErrKey = errors.New("the encryption key does not fit")

const keyBytes = 32

// keysName is the file of a sealed store that holds what it is sealed with.
const keysName = "keys"

// Key is what a store, or a backup of one, is sealed with. It is never printed:
// String gives its fingerprint.
type Key struct{ secret [keyBytes]byte }

// ReadKey reads a key file: 32 random bytes in base64 on one line, as
// `openssl rand -base64 32` prints them. Its errors wrap ErrKey, or are the file's.
func ReadKey(path string) (*Key, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the encryption key: %w", err)
	}
	secret, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(content)))
	if err != nil || len(secret) != keyBytes {
		return nil, fmt.Errorf("%w: %s holds no key; write %d random bytes in base64 to it, as `openssl rand -base64 32` prints them",
			ErrKey, path, keyBytes)
	}
	return newKey(secret), nil
}

func newKey(secret []byte) *Key {
	k := new(Key)
	copy(k.secret[:], secret)
	return k
}

// derive makes a key for one use of k.
func (k *Key) derive(use string, salt []byte) []byte {
	b, err := hkdf.Key(sha256.New, k.secret[:], salt, "pawl "+use, keyBytes)
	if err != nil {
		panic(err) // the length is a constant that SHA-256 allows
	}
	return b
}

// String is a fingerprint, by which people tell keys apart.
func (k *Key) String() string { return hex.EncodeToString(k.derive("fingerprint", nil)[:8]) }

// backupBox opens, or seals, the items of a backup.
func (k *Key) backupBox(head *BackupHead) (*box, error) {
	switch {
	case k == nil:
		return nil, fmt.Errorf("%w: the backup is sealed with the key %s; give that key's file", ErrKey, head.Key)
	case k.String() != head.Key:
		return nil, fmt.Errorf("%w: the backup is sealed with the key %s, and the one given is %s", ErrKey, head.Key, k)
	}
	return newBox(k.derive("backup", []byte(head.ID))), nil
}

// box seals bytes: AES-256-GCM, with a random nonce before what it seals. Each is
// used for one backup, one segment or one file, far below what random nonces bear.
type box struct{ aead cipher.AEAD }

func newBox(secret []byte) *box {
	block, err := aes.NewCipher(secret)
	if err != nil {
		panic(err) // the length is a constant that AES allows
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has blocks of 16 bytes
	}
	return &box{aead: aead}
}

// seal appends to b the sealed body. beside is not in it, but has to be the same
// when it is opened.
func (x *box) seal(b, body, beside []byte) []byte { return x.aead.Seal(b, nil, body, beside) }

// open returns what seal was given.
func (x *box) open(b, beside []byte) ([]byte, error) { return x.aead.Open(nil, nil, b, beside) }
