package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/internal/wholefile"
)

func (a *app) storeBackupCommand() *cobra.Command {
	var (
		p         storePlace
		to, since string
	)
	cmd := &cobra.Command{
		Use:   "backup [DIR] -o FILE",
		Short: "Back the store up, while the daemon goes on",
		Long: `Backup writes to FILE, or to standard output for "-", all that the store holds at
one moment: everything that was confirmed before, and nothing that came later.
Writes go on meanwhile; compaction waits. It checks what it writes, and FILE has
its name only once it is whole and on disk. An existing FILE is not overwritten.

--since makes an increment: what changed since an earlier backup, which is named by
its file, or by its revision. A revision alone costs a look at every value. To
restore, give the full backup and its increments in order.

A backup of a sealed store is sealed with the same key: keep that key with it. A
record that can't be read is named, keeps no other from being backed up, and makes
the exit code 1.`,
		Example: "  pawl store backup -o monday.pawl\n  pawl store backup --since monday.pawl -o tuesday.pawl\n  pawl store backup -o - | ssh vault 'cat > monday.pawl'",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case to == "":
				return usage(cmd, "store backup needs -o FILE, or -o - for standard output")
			case to == "-" && a.OutTerminal:
				return usage(cmd, "a backup is nothing to read on a terminal; name a file, or pipe it somewhere")
			}
			return atMostOne("DIR")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := a.parseSince(since)
			if err != nil {
				return err
			}
			b, err := a.backup(cmd.Context(), &p, args, to, from)
			if err != nil {
				return err
			}
			if to != "-" {
				a.printBackup(to, &b)
			}
			return a.tellDamage(b.End.Damaged, b.Damaged)
		},
	}
	cmd.Flags().StringVarP(&to, "output", "o", "", `file to write, or "-" for standard output`)
	cmd.Flags().StringVar(&since, "since", "", "an earlier backup's file, or its revision: write what changed since")
	p.flags(cmd)
	return cmd
}

// parseSince reads what an increment goes on from: a revision, or the head of a file.
func (a *app) parseSince(since string) (badger.Since, error) {
	if since == "" {
		return badger.Since{}, nil
	}
	if revision, err := strconv.ParseUint(since, 10, 64); err == nil && revision > 0 {
		return badger.Since{Revision: revision}, nil
	}
	f, err := os.Open(since)
	if err != nil {
		return badger.Since{}, fmt.Errorf("--since: %w", err)
	}
	defer f.Close()
	head, err := badger.ReadBackupHead(f)
	if err != nil {
		return badger.Since{}, fmt.Errorf("--since %s: %w", since, err)
	}
	return badger.SinceOf(head), nil
}

func (a *app) backup(ctx context.Context, p *storePlace, args []string, to string, since badger.Since) (b badger.Backup, err error) {
	from, err := a.backupStream(ctx, p, args, since)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	defer a.endProgress()
	if to == "-" {
		return badger.VerifyBackup(io.TeeReader(from, a.Out), nil, a.records())
	}
	f, err := wholefile.Create(to)
	if err != nil {
		return b, err
	}
	b, err = badger.VerifyBackup(io.TeeReader(from, f), nil, a.records())
	return b, f.Finish(err)
}

// backupStream is the daemon's, or that of a store which is opened for it.
func (a *app) backupStream(ctx context.Context, p *storePlace, args []string, since badger.Since) (io.ReadCloser, error) {
	return eitherWay(a, p, args,
		func(c *client.Client) (io.ReadCloser, error) { return c.BackupStore(ctx, api.StoreSince(since)) },
		func(s *badger.Store) (io.ReadCloser, error) {
			return streamOf(s, func(w io.Writer) error {
				_, err := s.Backup(ctx, w, since)
				return err
			}), nil
		})
}

// eitherWay asks the daemon. Where a folder is named, or none answers and nobody said
// where one is, it opens the store itself; offline then closes it.
func eitherWay[T any](a *app, p *storePlace, args []string, online func(*client.Client) (T, error), offline func(*badger.Store) (T, error)) (out T, err error) {
	if len(args) == 0 {
		c, err := a.client()
		if err != nil {
			return out, err
		}
		defer c.Close()
		out, err = online(c)
		named := a.address != "" || a.env("PAWL_ADDRESS") != ""
		if named || !errors.Is(err, client.ErrUnreachable) {
			return out, err
		}
	}
	s, err := a.openStore(p, args)
	if err != nil {
		return out, err
	}
	return offline(s)
}

// streamOf is what write writes, for somebody to read. Closing it closes s.
func streamOf(s *badger.Store, write func(io.Writer) error) io.ReadCloser {
	r, w := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.CloseWithError(write(w))
	}()
	return &storeStream{PipeReader: r, ended: ended, store: s}
}

type storeStream struct {
	*io.PipeReader
	ended chan struct{}
	store *badger.Store
}

// Close ends the stream, also where not all of it was read.
func (s *storeStream) Close() error {
	err := s.PipeReader.Close()
	<-s.ended
	return errors.Join(err, s.store.Close())
}

func (a *app) printBackup(path string, b *badger.Backup) {
	kind := "full"
	if b.Head.Increment {
		kind = fmt.Sprintf("increment from revision %d", b.Head.Since)
	}
	sealed := ""
	if b.Head.Key != "" {
		sealed = ", sealed with the key " + b.Head.Key
	}
	fmt.Fprintf(a.Out, "%s: %s, revision %d, %s, %s, made at %s%s\n", path, kind, b.Head.Revision, plural(b.End.Resources, "resource"), size(b.End.Bytes),
		b.Head.Made.Format(time.RFC3339), sealed)
}
