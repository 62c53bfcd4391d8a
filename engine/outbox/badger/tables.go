package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"

	"github.com/pawlsync/pawl/engine/outbox"
)

// listedTables returns the paths of the tables in dir that Badger's MANIFEST
// names, with the number of Badger's key that each is sealed with. There are others after a kill: those that were not finished yet, and
// those that others had replaced.
func listedTables(dir string) (map[string]uint64, error) {
	path := filepath.Join(dir, badger.ManifestFilename)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, _, err := badger.ReplayManifestFile(f, 0, badgerOptions(dir, nil, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, plainly(dir, fmt.Errorf("manifest: %w", err))
	}
	paths := make(map[string]uint64, len(m.Tables))
	for id, t := range m.Tables {
		paths[table.NewFilename(id, dir)] = t.KeyID
	}
	return paths, nil
}

// setAside moves the tables in dir that are not listed to another directory of
// the same file system. Badger removes them as it opens, and where the MANIFEST
// lost its end they hold what is lost with it. What is aside already stays as
// it is.
func setAside(dir, aside string) error {
	listed, err := listedTables(dir)
	if err != nil {
		return err
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		path := filepath.Join(dir, e.Name())
		if _, named := listed[path]; named || filepath.Ext(path) != ".sst" {
			continue
		}
		if err := os.MkdirAll(aside, 0o700); err != nil {
			return err
		}
		to := filepath.Join(aside, e.Name())
		there, err := exists(to)
		if err == nil && !there {
			err = os.Rename(path, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyTables looks at the end of every listed table in dir. Badger trusts it,
// and dies in a goroutine of its own where it is cut off.
//
//	… index, length of the index, checksum of the index, length of the checksum
//
// Lengths have 4 bytes, big endian. The blocks before them Badger verifies as
// it opens the table.
func verifyTables(dir string) error {
	listed, err := listedTables(dir)
	if err != nil {
		return err
	}
	for path := range listed {
		if err := verifyTable(path); err != nil {
			return fmt.Errorf("%w: the table %s is damaged: %w; %s", outbox.ErrDamaged, path, err, wayOut)
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
