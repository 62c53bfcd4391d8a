package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/engine/outbox/badger"
)

// restored is what both ways into a new store say of it.
const restored = `
The store is a new one: every sink is suspended (reason Restored) until its
sources sent their full set or you resume it, and every resource is looked at
before anything is written to its target. What to do about a target that holds
something newer is the resource's conflict policy: source-wins writes over it,
report-only tells of it. An existing store is not overwritten.`

// into says where a new store is made.
type into struct {
	storePlace
	dir           string
	backupKeyFile string
}

func (i *into) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&i.dir, "into", "", "folder of the new store (default store.path of the configuration)")
	i.storePlace.flags(cmd)
	cmd.Flags().Lookup("encryption-key-file").Usage = "file with the key that the new store is sealed with (default store.encryption_key_file of the configuration, where that is for this folder)"
}

func (a *app) storeRestoreCommand() *cobra.Command {
	var i into
	cmd := &cobra.Command{
		Use:   "restore BACKUP [INCREMENT ...]",
		Short: "Make a store of a backup and its increments",
		Long: `Restore makes a store of a full backup and the increments that go on from it, in
order; "-" is standard input. It checks all of them, and leaves nothing behind where
one is wrong.
` + restored + `

The new store is sealed where a key is named or configured, and may be sealed with
another key than the backup, or not at all.`,
		Example: "  pawl store restore monday.pawl tuesday.pawl\n  pawl store restore monday.pawl --into /var/lib/pawl-new",
		Args:    atLeastOne("BACKUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.restoreOptions(&i)
			if err != nil {
				return err
			}
			from, closeAll, err := a.openFiles(args)
			if err != nil {
				return err
			}
			defer closeAll()
			done, err := badger.Restore(cmd.Context(), o, from...)
			return a.tellRestored(o.Dir, &done, err)
		},
	}
	i.flags(cmd)
	cmd.Flags().StringVar(&i.backupKeyFile, "backup-key-file", "", "file with the key that the backups are sealed with (default the new store's)")
	return cmd
}

func (a *app) storeImportCommand() *cobra.Command {
	var i into
	cmd := &cobra.Command{
		Use:   "import EXPORT",
		Short: "Make a store of an export",
		Long: `Import makes a store of what ` + "`pawl store export`" + ` wrote, generations included;
"-" is standard input. What the export says was damaged is named and left out, and
makes the exit code 1.
` + restored,
		Example: "  pawl store export --salvage /var/lib/pawl -o left.ndjson\n  pawl store import left.ndjson --into /var/lib/pawl-new",
		Args:    exactly("EXPORT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.restoreOptions(&i)
			if err != nil {
				return err
			}
			from, closeAll, err := a.openFiles(args)
			if err != nil {
				return err
			}
			defer closeAll()
			done, err := badger.Import(cmd.Context(), o, from[0])
			return a.tellRestored(o.Dir, &done, err)
		},
	}
	i.flags(cmd)
	return cmd
}

func (a *app) restoreOptions(i *into) (o badger.RestoreOptions, err error) {
	var named []string
	if i.dir != "" {
		named = []string{i.dir}
	}
	if o.Dir, o.Key, err = a.folder(&i.storePlace, named); err != nil {
		return o, err
	}
	if i.backupKeyFile != "" {
		if o.BackupKey, err = badger.ReadKey(i.backupKeyFile); err != nil {
			return o, err
		}
	}
	o.Now = a.Now
	if a.ErrTerminal {
		o.Progress = func(records int) { fmt.Fprintf(a.Err, "\r\x1b[K%s", plural(records, "record")) }
	}
	return o, nil
}

// openFiles opens files for reading; "-" is standard input.
func (a *app) openFiles(paths []string) (from []io.Reader, closeAll func(), err error) {
	var files []*os.File
	closeAll = func() {
		for _, f := range files {
			f.Close()
		}
	}
	for _, path := range paths {
		if path == "-" {
			from = append(from, a.In)
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		files, from = append(files, f), append(from, f)
	}
	return from, closeAll, nil
}

func (a *app) tellRestored(dir string, done *badger.Restored, err error) error {
	a.endProgress()
	if err != nil {
		if errors.Is(err, context.Canceled) {
			fmt.Fprintln(a.Err, "nothing is left of the new store")
		}
		return err
	}
	fmt.Fprintf(a.Out, "%s: %s, as of %s; new epoch %s\n", dir, plural(done.Records, "record"), done.Made.UTC().Format("2006-01-02T15:04:05Z"), done.Epoch)
	fmt.Fprintln(a.Out, "its sinks are suspended until their sources sent their full set; `pawl resume --sink NAME` lets one go on before")
	return a.tellDamage(len(done.Damaged), done.Damaged)
}
