package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/internal/metrics"
	"github.com/pawlsync/pawl/internal/server"
)

// auditFile appends the audit's lines to a file. Where a tool that rotates logs has
// renamed or removed it, it is made anew within auditLook, without a signal. What can't
// be written is lost: a disk that is full must not keep a deletion from being asked for.
// It is told by the log once, and counted. It is an io.Writer of whole lines.
type auditFile struct {
	path string
	log  *slog.Logger
	lost func()
	now  func() time.Time

	mu     sync.Mutex
	file   *os.File
	looked time.Time
	failed bool
}

// auditLook is how often the file is looked for.
const auditLook = time.Second

// openAudit opens the file, or makes one that its owner alone may read; lost is told of
// each line that could not be written.
func openAudit(path string, log *slog.Logger, lost func()) (*auditFile, error) {
	a := &auditFile{path: path, log: log, lost: lost, now: time.Now}
	if err := a.open(); err != nil {
		return nil, err
	}
	return a, nil
}

// keepAudit opens the audit's file, where the configuration names one.
func (d *daemon) keepAudit(so *server.Options, observer *metrics.Observer) error {
	path := d.config.Server.AuditFile
	if path == "" {
		return nil
	}
	a, err := openAudit(path, d.options.Logger, observer.AuditLost)
	if err != nil {
		return config.Errors{d.config.Wrong("server.audit_file", err.Error(), "name a file in a folder that the daemon may write to")}
	}
	d.audit, so.Audit = a, a.logger()
	return nil
}

// logger writes lines of JSON without level and message, which are always the same.
func (a *auditFile) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(a, &slog.HandlerOptions{ReplaceAttr: func(groups []string, at slog.Attr) slog.Attr {
		if len(groups) == 0 && (at.Key == slog.LevelKey || at.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return at
	}}))
}

func (a *auditFile) open() error {
	// Not blocking: to open a pipe that nobody reads would wait for ever.
	f, err := os.OpenFile(a.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() { // whoever reads a pipe could hold everybody up
		return errors.Join(err, f.Close(), fmt.Errorf("%s is no regular file", a.path))
	}
	if endsWithinLine(f) {
		if _, err := f.WriteString("\n"); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	a.shut()
	a.file, a.looked = f, a.now()
	return nil
}

// endsWithinLine reports whether the last line of f was cut off, by a full disk or the
// machine's end. What followed it there would be lost with it.
func endsWithinLine(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	r, err := os.Open(f.Name()) // f can't be read, and must not have to be
	if err != nil {
		return false
	}
	defer r.Close()
	var last [1]byte
	_, err = r.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

func (a *auditFile) shut() {
	if a.file != nil {
		_ = a.file.Close()
		a.file = nil
	}
}

func (a *auditFile) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.write(line)
	switch {
	case err != nil:
		a.lost()
		a.shut() // the next line tries from the start
		if !a.failed {
			a.log.Error("the audit's file can't be written; its lines are lost until it can, and this is told once", "file", a.path, "error", err)
		}
	case a.failed:
		a.log.Warn("the audit's file is written again", "file", a.path)
	}
	a.failed = err != nil
	return len(line), nil
}

func (a *auditFile) write(line []byte) error {
	if a.file == nil || a.now().Sub(a.looked) >= auditLook && a.moved() {
		if err := a.open(); err != nil {
			return err
		}
	}
	_, err := a.file.Write(line)
	return err
}

// moved reports whether the path leads elsewhere than to the file that is open.
func (a *auditFile) moved() bool {
	a.looked = a.now()
	there, err := os.Stat(a.path)
	if err != nil {
		return true
	}
	here, err := a.file.Stat()
	return err != nil || !os.SameFile(there, here)
}

// Close lets go of the file; of nil it does nothing.
func (a *auditFile) Close() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}
