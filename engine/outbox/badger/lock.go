package badger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
)

const lockName = "lock"

// holder is who has the store open; the lock file says so in JSON. What counts
// is the lock on the file, which ends with its process however that dies.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// lock takes dir for this process, or says who has it in an error that wraps
// outbox.ErrLocked.
func lock(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the store: %w", err)
	}
	ok, err := lockFile(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	if !ok {
		err := fmt.Errorf("%w: %s; stop it first, or choose another directory", outbox.ErrLocked, heldBy(f))
		return nil, errors.Join(err, f.Close())
	}
	host, _ := os.Hostname() // for people's eyes
	b, err := json.Marshal(holder{PID: os.Getpid(), Host: host, Since: time.Now().UTC().Truncate(time.Second)})
	if err == nil {
		err = errors.Join(f.Truncate(0), second(f.WriteAt(append(b, '\n'), 0)))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), f.Close())
	}
	return f, nil
}

// unlock leaves the file: to remove it would let two processes lock two files
// of one name.
func unlock(f *os.File) error { return errors.Join(f.Truncate(0), f.Close()) }

func heldBy(f *os.File) string {
	var h holder
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	if err == nil {
		err = json.Unmarshal(b, &h)
	}
	if err != nil || h.PID == 0 {
		return "the other one has not said yet who it is"
	}
	return fmt.Sprintf("process %d on %s has it open since %s", h.PID, h.Host, h.Since.Format(time.RFC3339))
}

func second[T any](_ T, err error) error { return err }
