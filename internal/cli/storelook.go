package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/internal/daemon"
)

func (a *app) storeStatsCommand() *cobra.Command {
	var p storePlace
	cmd := &cobra.Command{
		Use:   "stats [DIR]",
		Short: "Count what a store holds, and what it takes on disk",
		Long: `Stats counts resources by sink and says what the files of the store take on disk.
It looks at every key and at no payload: about a second for a million resources.`,
		Args: atMostOne("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			d, err := eitherWay(a, &p, args,
				func(c *client.Client) (api.StoreDetails, error) { return c.Store(ctx) },
				func(s *badger.Store) (api.StoreDetails, error) {
					f, err := s.Figures(ctx)
					return daemon.StoreDetails(&f), errors.Join(err, s.Close())
				})
			if err != nil {
				return err
			}
			return a.print(d, func() { a.printStore(&d) })
		},
	}
	p.flags(cmd)
	a.outputFlag(cmd)
	return cmd
}

func (a *app) storeCompactCommand() *cobra.Command {
	var p storePlace
	cmd := &cobra.Command{
		Use:   "compact [DIR]",
		Short: "Free what was overwritten or removed",
		Long: `Compact frees the space of what was overwritten or removed, and returns when that is
done, which may take minutes. The daemon does so by itself when garbage has grown;
reads and writes go on meanwhile. A backup that is under way ends first.`,
		Args: atMostOne("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			d, err := eitherWay(a, &p, args,
				func(c *client.Client) (api.StoreDetails, error) { return c.CompactStore(ctx) },
				func(s *badger.Store) (api.StoreDetails, error) {
					var f badger.Figures
					err := s.Compact(ctx)
					if err == nil {
						f, err = s.Figures(ctx)
					}
					return daemon.StoreDetails(&f), errors.Join(err, s.Close())
				})
			if err != nil {
				return err
			}
			return a.print(d, func() { a.printStore(&d) })
		},
	}
	p.flags(cmd)
	a.outputFlag(cmd)
	return cmd
}

func (a *app) printStore(d *api.StoreDetails) {
	fmt.Fprintf(a.Out, "%s: format %d, revision %d, epoch %s\n", d.Directory, d.Format, d.Revision, d.Epoch)
	switch {
	case !d.Restored.IsZero():
		fmt.Fprintf(a.Out, "it was restored at %s\n", d.Restored.Format(time.RFC3339))
	case d.Lossy:
		fmt.Fprintln(a.Out, "it lost acknowledged data once, and that was accepted")
	}
	if d.BackedUp.IsZero() {
		fmt.Fprintln(a.Out, "it was never backed up")
	} else {
		fmt.Fprintf(a.Out, "it was backed up %s ago\n", a.age(d.BackedUp))
	}
	if d.Key != "" {
		fmt.Fprintln(a.Out, "it is sealed with the key "+d.Key)
	}
	fmt.Fprintf(a.Out, "%s, of which %d are to be deleted; %d with a status\n", plural(d.Resources, "resource"), d.Tombstones, d.Statuses)
	disk := d.Disk
	fmt.Fprintf(a.Out, "on disk: tables %s, value log %s, logs %s, journal %s", size(disk.Tables), size(disk.ValueLog), size(disk.Logs), size(disk.Journal))
	if disk.Aside > 0 {
		fmt.Fprintf(a.Out, ", aside %s", size(disk.Aside))
	}
	fmt.Fprintf(a.Out, "; garbage %s; free %s, of which %s are kept in reserve\n", size(d.GarbageBytes), size(d.FreeBytes), size(d.ReserveBytes))
	if len(d.Sinks) == 0 {
		return
	}
	t := a.table("SINK", "RESOURCES", "BYTES")
	for _, s := range d.Sinks {
		t.add(s.Name, fmt.Sprint(s.Resources), size(s.Bytes))
	}
	t.print()
}

func (a *app) storeRotateKeyCommand() *cobra.Command {
	var (
		p    storePlace
		next string
	)
	cmd := &cobra.Command{
		Use:   "rotate-key [DIR] --new-encryption-key-file FILE",
		Short: "Change the key that a store is sealed with",
		Long: `Rotate-key makes the key in FILE the one that opens the store, in place of the one
in force. It takes a moment, whatever the size of the store: what the store holds is
sealed with keys of its own, and only those are sealed anew. The daemon must not run
meanwhile; afterwards it needs the new file. Backups that were made before need the
old key still. Where the old key is in wrong hands, together with a copy of the
folder, restore a backup: that draws new keys for everything.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if next == "" {
				return usage(cmd, "store rotate-key needs --new-encryption-key-file FILE")
			}
			return atMostOne("DIR")(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir, key, err := a.folder(&p, args)
			if err != nil {
				return err
			}
			to, err := badger.ReadKey(next)
			if err == nil {
				err = badger.RotateKey(dir, key, to)
			}
			if err == nil {
				fmt.Fprintf(a.Out, "%s: sealed with the key %s now\n", dir, to)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&next, "new-encryption-key-file", "", "file with the new key")
	p.flags(cmd)
	return cmd
}
