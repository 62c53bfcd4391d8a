package badger

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/pawlsync/pawl/engine/outbox/internal/queue"
)

// ErrExport is wrapped by the errors about what an export holds.
var ErrExport = errors.New("the export can't be used")

// Import makes a store in o.Dir of an export, as Restore does of a backup (R67). What
// the export says could not be read is told in Restored.Damaged, and left out unless
// it says what is desired.
//
// # Errors
//
// They come from the reader and ctx, or name the line that is wrong. What was made is
// removed again.
func Import(ctx context.Context, o RestoreOptions, from io.Reader) (Restored, error) {
	o.setDefaults()
	done := Restored{}
	err := build(o, &done, func(b *builder) error { return b.lines(ctx, bufio.NewReaderSize(from, 1<<20)) })
	if err != nil {
		return done, fmt.Errorf("import into the store in %s: %w", o.Dir, err)
	}
	return done, nil
}

// lines adds every line, up to the end that has to be there.
func (b *builder) lines(ctx context.Context, from *bufio.Reader) error {
	var head ExportHead
	line, err := nextLine(from)
	if err != nil || strictly(line, &head) != nil || head.Kind != exportKind {
		return errors.Join(fmt.Errorf("%w: it is none of pawl's; its first line has to be that of `pawl store export`", ErrExport), unlessEnd(err))
	}
	if head.Format > exportFormat {
		return fmt.Errorf("%w: a newer program made it (format %d); use that, or a newer one", ErrExport, head.Format)
	}
	highest, seen := head.Revision, ExportEnd{}
	for n := 2; ; n++ {
		if line, err = nextLine(from); err != nil {
			return errors.Join(fmt.Errorf("%w: it is cut off after line %d", ErrExport, n-1), unlessEnd(err))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if end := endOf(line); end != nil {
			b.done.Made, b.done.Revision = head.Made, firstRevision(highest, b.o.Now().Sub(head.Made))
			if *end != seen {
				return fmt.Errorf("%w: it has %d resources and %d that are damaged, and its end says %d and %d",
					ErrExport, seen.Resources, seen.Damaged, end.Resources, end.Damaged)
			}
			return nil
		}
		var l exportLine
		err := strictly(line, &l)
		if err == nil {
			err = b.line(&l, &seen)
		}
		if err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrExport, n, err)
		}
		highest = max(highest, l.Generation)
	}
}

func nextLine(from *bufio.Reader) ([]byte, error) {
	line, err := from.ReadBytes('\n')
	if err != nil && len(bytes.TrimSpace(line)) > 0 && errors.Is(err, io.EOF) {
		err = nil // the last one may lack its end
	}
	return line, err
}

// strictly refuses fields that do not exist: a slip of the pen would drop a policy.
func strictly(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// endOf returns the end, nil where line is a resource.
func endOf(line []byte) *ExportEnd {
	var l struct {
		End *ExportEnd `json:"end"`
	}
	if !bytes.HasPrefix(line, []byte(`{"end":`)) || strictly(line, &l) != nil {
		return nil
	}
	return l.End
}

// line adds one resource.
func (b *builder) line(l *exportLine, seen *ExportEnd) error {
	if l.Damaged != "" {
		seen.Damaged++
		if len(b.done.Damaged) < maxNamed {
			b.done.Damaged = append(b.done.Damaged, l.Damaged)
		}
		if l.Generation == 0 {
			return nil
		}
	}
	key, rec, err := l.record()
	if err != nil {
		return err
	}
	if rec.Desired.Generation > 0 {
		seen.Resources++
	}
	c := &queue.Change{Key: key, Revision: rec.Desired.Generation, Record: rec, Desired: queue.Set}
	if l.Status != nil {
		c.Status = queue.Set
	}
	b.count()
	return b.batch.entry(key, newEntry(c))
}
