package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/engine/outbox/badger"
)

func (a *app) storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Look after the store on disk",
		Long: `Store looks after the store: check what is wrong with it, back it up, restore it,
compact it, take everything out of it and put it into another one.

backup, export, stats and compact ask the daemon, which goes on meanwhile. Where a
DIR is named, or no daemon answers and no --address says where one is, they open
the store in that folder, or in the configuration's, themselves.`,
		Args: onlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.storeCheckCommand(), a.storeStatsCommand(), a.storeCompactCommand(), a.storeBackupCommand(), a.storeRestoreCommand(),
		a.storeExportCommand(), a.storeImportCommand(), a.storeRotateKeyCommand())
	return cmd
}

func (a *app) storeCheckCommand() *cobra.Command {
	var p storePlace
	cmd := &cobra.Command{
		Use:   "check [DIR | BACKUP]",
		Short: "Read everything in a store, or in a backup, and say what is wrong",
		Long: `Check reads every record of the store in DIR, or of the configuration's, and
compares checksums, numbers and the mark of what was acknowledged. It changes
nothing. The daemon must not run meanwhile. Of a file it checks that it is a whole
backup; where that is sealed, its checksums alone unless the key is named. The exit
code is 1 when something is wrong.`,
		Args: atMostOne("DIR or BACKUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if info, err := os.Stat(args[0]); err == nil && info.Mode().IsRegular() {
					return a.checkBackup(args[0], &p)
				}
			}
			dir, key, err := a.folder(&p, args)
			if err != nil {
				return err
			}
			report, err := badger.Check(cmd.Context(), dir, key, a.checkProgress())
			if err != nil {
				return err
			}
			return a.printCheck(&report)
		},
	}
	p.flags(cmd)
	a.outputFlag(cmd)
	return cmd
}

// storePlace says which store is meant, and what opens it.
type storePlace struct {
	config  string // file
	keyFile string // "": the configuration's
}

func (p *storePlace) flags(cmd *cobra.Command) {
	configFlag(cmd, &p.config)
	cmd.Flags().StringVar(&p.keyFile, "encryption-key-file", "", "file with the key that the store is sealed with (default store.encryption_key_file of the configuration)")
}

// atMostOne allows one argument, named as people know it.
func atMostOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usage(cmd, "%s takes one %s, but got %s", words(cmd), name, given(args))
		}
		return nil
	}
}

// folder returns the folder that is meant, and the key. A folder that is named needs
// no configuration; where there is one that is for it, its key counts.
func (a *app) folder(p *storePlace, args []string) (dir string, key *badger.Key, err error) {
	c, err := a.loadConfig(p.config, nil)
	switch {
	case len(args) == 1:
		dir = args[0]
	case err != nil:
		return "", nil, err
	default:
		dir = c.Store.Path
	}
	file := p.keyFile
	if file == "" && err == nil && sameFolder(dir, c.Store.Path) {
		file = c.Store.EncryptionKeyFile
	}
	if file != "" {
		key, err = badger.ReadKey(file)
		return dir, key, err
	}
	return dir, nil, nil
}

func sameFolder(a, b string) bool {
	absolute, err := filepath.Abs(a)
	return a == b || err == nil && absolute == filepath.Clean(b)
}

// openStore opens the store of a folder for a command. There must be one.
func (a *app) openStore(p *storePlace, args []string) (*badger.Store, error) {
	dir, key, err := a.folder(p, args)
	if err != nil {
		return nil, err
	}
	// A backup is wanted most when a disk is nearly full.
	const reserve = 64 << 20
	return badger.Open(badger.Options{Dir: dir, Key: key, MustExist: true, ReserveBytes: reserve})
}

// checkProgress counts keys on a terminal; nil elsewhere.
func (a *app) checkProgress() func(done, total int) {
	if !a.ErrTerminal {
		return nil
	}
	return func(done, total int) {
		fmt.Fprintf(a.Err, "\r%d of %d keys", done, total)
		if done == total {
			a.endProgress()
		}
	}
}

// records counts records and bytes on a terminal, until endProgress; nil elsewhere.
func (a *app) records() func(records int, bytes int64) {
	if !a.ErrTerminal {
		return nil
	}
	return func(records int, bytes int64) {
		fmt.Fprintf(a.Err, "\r\x1b[K%s, %s", plural(records, "record"), size(bytes))
	}
}

// endProgress clears the line.
func (a *app) endProgress() {
	if a.ErrTerminal {
		fmt.Fprint(a.Err, "\r\x1b[K")
	}
}

func (a *app) checkBackup(path string, p *storePlace) error {
	_, key, err := a.folder(p, []string{""})
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := badger.VerifyBackup(f, key, a.records())
	a.endProgress()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	view := struct {
		badger.BackupHead
		badger.BackupEnd
		Damaged []string `json:"damaged"`
	}{b.Head, b.End, append([]string{}, b.Damaged...)}
	err = a.print(view, func() {
		a.printBackup(path, &b)
		if b.End.Damaged == 0 {
			fmt.Fprintln(a.Out, "nothing is wrong")
		}
	})
	return errors.Join(err, a.tellDamage(b.End.Damaged, b.Damaged))
}

// tellDamage lists what could not be read, and ends the command with ExitError where
// there is something.
func (a *app) tellDamage(n int, named []string) error {
	if n == 0 {
		return nil
	}
	for _, what := range named {
		fmt.Fprintln(a.Err, a.loud("! "+what+" can't be read, and is not in it"))
	}
	if more := n - len(named); more > 0 {
		fmt.Fprintf(a.Err, "and %s more\n", plural(more, "record"))
	}
	return errSilent{ExitError}
}

// shadowFolder is where a check opens the tables, so as to write nothing into the
// store's own folder. People know only the latter.
var shadowFolder = regexp.MustCompile(`[^\s"]*pawl-check-[0-9]+`)

func (a *app) printCheck(r *badger.Report) error {
	view := struct {
		Directory string    `json:"directory"`
		Format    int       `json:"format"`
		Epoch     string    `json:"epoch"`
		Lossy     bool      `json:"lossy,omitempty"`
		Restored  time.Time `json:"restored,omitzero"`
		Revision  uint64    `json:"revision"`
		Resources int       `json:"resources"`
		Statuses  int       `json:"statuses"`
		Documents int       `json:"documents"`
		Bytes     int64     `json:"bytes"`
		Frames    int       `json:"frames"`
		Problems  []string  `json:"problems"`
		Omitted   int       `json:"problemsOmitted,omitempty"`
	}(*r)
	view.Problems = []string{} // an empty list, not null
	for _, p := range r.Problems {
		view.Problems = append(view.Problems, shadowFolder.ReplaceAllLiteralString(p, filepath.Join(r.Directory, "data")))
	}
	err := a.print(view, func() {
		fmt.Fprintf(a.Out, "%s: format %d, revision %d, %s, %s\n", r.Directory, r.Format, r.Revision, plural(r.Resources, "resource"), size(r.Bytes))
		switch {
		case !r.Restored.IsZero():
			fmt.Fprintf(a.Out, "it was restored at %s\n", r.Restored.Format(time.RFC3339))
		case r.Lossy:
			fmt.Fprintln(a.Out, "it lost acknowledged data once, and that was accepted")
		}
		if len(view.Problems) == 0 {
			fmt.Fprintln(a.Out, "nothing is wrong")
		}
		for _, p := range view.Problems {
			fmt.Fprintln(a.Out, a.loud("! "+p))
		}
		if r.Omitted > 0 {
			fmt.Fprintf(a.Out, "and %s more\n", plural(r.Omitted, "problem"))
		}
	})
	if err == nil && len(r.Problems) > 0 {
		err = errSilent{ExitError}
	}
	return err
}
