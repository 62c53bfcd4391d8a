package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"

	"github.com/pawlsync/pawl/engine/outbox"
)

// verifyTables looks at the end of every table in dir. Badger trusts it, and
// dies in a goroutine of its own where it is cut off.
//
//	… index, length of the index, checksum of the index, length of the checksum
//
// Lengths have 4 bytes, big endian. The blocks before them Badger verifies as
// it opens the table.
func verifyTables(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := verifyTable(path); err != nil {
			return fmt.Errorf("%w: table %s: %w; restore a copy", outbox.ErrDamaged, path, err)
		}
	}
	return nil
}

var errCutOff = errors.New("it is cut off, or its end is overwritten")

func verifyTable(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end := info.Size()
	sum, end, err := lastPart(f, end)
	if err != nil {
		return err
	}
	index, _, err := lastPart(f, end)
	if err != nil {
		return err
	}
	var want pb.Checksum
	if err := proto.Unmarshal(sum, &want); err != nil {
		return errCutOff
	}
	return y.VerifyChecksum(index, &want)
}

// lastPart reads what ends at end with its length behind it, and returns where
// it starts.
func lastPart(f *os.File, end int64) (part []byte, start int64, err error) {
	var b [4]byte
	if end < 4 {
		return nil, 0, errCutOff
	}
	if _, err := f.ReadAt(b[:], end-4); err != nil {
		return nil, 0, err
	}
	size := int64(binary.BigEndian.Uint32(b[:]))
	start = end - 4 - size
	if size == 0 || start < 0 {
		return nil, 0, errCutOff
	}
	part = make([]byte, size)
	_, err = f.ReadAt(part, start)
	return part, start, err
}
