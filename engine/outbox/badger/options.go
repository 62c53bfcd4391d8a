package badger

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/pawlsync/pawl/engine/outbox"
)

// Options of Open. Dir must be set; the rest has defaults.
type Options struct {
	Dir      string          // made where it is missing
	Observer outbox.Observer // nil: nobody is told

	// ReserveBytes is kept free on the file system: below it Puts are refused,
	// because Badger dies (SIGBUS) on a full one. It must hold some memory
	// tables and what compaction needs meanwhile.
	// Defaults to 512 MiB; below 0: none is kept.
	ReserveBytes int64

	// MustExist refuses to make a store where there is none, with fs.ErrNotExist.
	MustExist bool

	// AcceptLoss opens a store that lost acknowledged data, under a new epoch.
	AcceptLoss bool

	// Key seals what the store writes. It must be the one that the store was made
	// with, or that it was given since (see RotateKey).
	// Defaults to none: nothing is sealed.
	Key *Key

	// Logger gets Badger's warnings and errors, and what this package repairs.
	// Defaults to none.
	Logger *slog.Logger

	hooks hooks
}

const defaultReserveBytes = 512 << 20

// hooks are where tests interfere.
type hooks struct {
	open       func() error                    // before Badger is opened; an error fails that
	replayed   func() error                    // after the journal is replayed; an error fails Open
	commit     func() error                    // before the journal is written; an error fails the commit
	rest       func(time.Duration)             // before a long read rests
	free       func(dir string) (int64, error) // nil: freeBytes
	migrations []migration                     // nil: migrations
}

func (o *Options) withDefaults() error {
	if o.Dir == "" {
		return errors.New("open the store: Options.Dir is empty; name a directory")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	o.Dir = dir
	if o.ReserveBytes == 0 {
		o.ReserveBytes = defaultReserveBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.hooks.free == nil {
		o.hooks.free = freeBytes
	}
	if o.hooks.migrations == nil {
		o.hooks.migrations = migrations
	}
	return nil
}

const (
	// valueThreshold is the size of a value, in bytes, from which on it goes to
	// the value log. Below it are the statuses, which a scan at start reads
	// without a seek each; above it are payloads, which compaction would
	// otherwise rewrite again and again: in the LSM tree a record of 1 KiB costs
	// five times the CPU time and the memory.
	valueThreshold = 1000

	memTableBytes     = 32 << 20
	valueLogFileBytes = 64 << 20
)

// badgerOptions are all the settings of Badger; master seals what it writes, nil:
// nothing is sealed.
func badgerOptions(dir string, master *Key, logger *slog.Logger) badger.Options {
	return master.sealedOptions(badger.DefaultOptions(dir).
		// A batch is synced in the order value log, write-ahead log, so that no
		// pointer survives a power cut that its value does not. The cost is
		// shared: the journal makes groups durable, Badger gets many at once.
		WithSyncWrites(true).
		// There is one writer, and what it decides on is read before.
		WithDetectConflicts(false).
		WithNumVersionsToKeep(1).
		// Payloads are small or packed already; compression doubles the memory
		// and needs a block cache. Without it blocks are read through the page
		// cache, and a cache of our own would hold them twice.
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithIndexCacheSize(0).
		// Fixed for ever: a store that was written with larger memory tables does
		// not open ("Arena too small"). Small ones keep memory low, and the lag
		// with which garbage in the value log is noticed.
		WithMemTableSize(memTableBytes).
		WithNumMemtables(2).
		WithValueThreshold(valueThreshold).
		// The unit of collection: small, so that a rewrite is short.
		WithValueLogFileSize(valueLogFileBytes).
		// The least that works; more only hold more buffers.
		WithNumCompactors(2).
		// Few tables in level 0: each may hide garbage, and a lookup of a new key
		// asks them all. As many before writers stall as memory tables of a burst.
		WithNumLevelZeroTables(4).
		WithNumLevelZeroTablesStall(16).
		WithBaseLevelSize(64 << 20).
		WithBaseTableSize(4 << 20).
		// Tables are verified as they are made and as they are opened: a block that
		// turns out damaged later reads as if its keys had never been, and a
		// resource that was forgotten would be put anew. Values have our checksum.
		WithChecksumVerificationMode(options.OnTableRead).
		WithBlockSize(8 << 10).
		// Badger's metrics are global variables.
		WithMetricsEnabled(false).
		WithLogger(badgerLog{logger}))
}

// badgerLog hands Badger's log on. Its information is about its own housekeeping.
type badgerLog struct{ *slog.Logger }

func (l badgerLog) Errorf(f string, args ...any)   { l.Error(line(f, args)) }
func (l badgerLog) Warningf(f string, args ...any) { l.Warn(line(f, args)) }
func (l badgerLog) Infof(f string, args ...any)    { l.Debug(line(f, args)) }
func (l badgerLog) Debugf(string, ...any)          {}

func line(f string, args []any) string {
	return "badger: " + strings.TrimSpace(fmt.Sprintf(f, args...))
}
