package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/internal/wholefile"
)

func (a *app) storeExportCommand() *cobra.Command {
	var (
		p               storePlace
		to              string
		status, salvage bool
	)
	cmd := &cobra.Command{
		Use:   "export [DIR]",
		Short: "Write what is desired of every resource as NDJSON",
		Long: `Export writes one JSON object a line: a head, every resource by key as of one
moment, payloads included, and an end, without which it was cut off. It is for other
programs, and for ` + "`pawl store import`" + `; a backup is smaller and quicker, and holds
also what is known, sagas, suspended sinks and what sources keep.

--salvage is for a store that does not open: it reads what can be read in DIR, or in
the configuration's folder, changes nothing there, and says what it left out. The
daemon must not run meanwhile. Where something can't be read the exit code is 1.`,
		Example: "  pawl store export -o all.ndjson\n  pawl store export | jq -r 'select(.sink == \"web\") | .key'\n  pawl store export --salvage --status /var/lib/pawl -o left.ndjson",
		Args:    atMostOne("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			export := a.export
			if salvage {
				export = a.salvage
			}
			return a.writeExport(to, func(w io.Writer) (badger.ExportEnd, error) { return export(cmd.Context(), w, &p, args, status) })
		},
	}
	cmd.Flags().StringVarP(&to, "output", "o", "-", `file to write, or "-" for standard output`)
	cmd.Flags().BoolVar(&status, "status", false, "what is known of each resource as well")
	cmd.Flags().BoolVar(&salvage, "salvage", false, "get what can be read out of a damaged store")
	p.flags(cmd)
	return cmd
}

// writeExport writes to a file or standard output, and tells what became of it.
func (a *app) writeExport(to string, export func(io.Writer) (badger.ExportEnd, error)) error {
	if to == "-" {
		end, err := export(a.Out)
		return errors.Join(err, a.tellUnread(&end))
	}
	f, err := wholefile.Create(to)
	if err != nil {
		return err
	}
	end, err := export(f)
	if err := f.Finish(err); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "%s: %s\n", to, plural(end.Resources, "resource"))
	return a.tellUnread(&end)
}

func (a *app) tellUnread(end *badger.ExportEnd) error {
	if end.Damaged == 0 {
		return nil
	}
	fmt.Fprintln(a.Err, a.loud(fmt.Sprintf("! %s can't be read, or only in part; their lines say why in \"damaged\"", plural(end.Damaged, "record"))))
	return errSilent{ExitError}
}

func (a *app) export(ctx context.Context, w io.Writer, p *storePlace, args []string, status bool) (end badger.ExportEnd, err error) {
	from, err := eitherWay(a, p, args,
		func(c *client.Client) (io.ReadCloser, error) { return c.ExportStore(ctx, status) },
		func(s *badger.Store) (io.ReadCloser, error) {
			return streamOf(s, func(w io.Writer) error {
				_, err := s.Export(ctx, w, badger.ExportOptions{Status: status})
				return err
			}), nil
		})
	if err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	return copyExport(w, from)
}

// copyExport copies lines, and checks that the last one is an end.
func copyExport(w io.Writer, from io.Reader) (badger.ExportEnd, error) {
	lines := bufio.NewReaderSize(from, 256<<10)
	var last []byte
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			last = line
			if _, err := w.Write(line); err != nil {
				return badger.ExportEnd{}, err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return badger.ExportEnd{}, fmt.Errorf("the export was cut off: %w", err)
		}
	}
	var end struct {
		End *badger.ExportEnd `json:"end"`
	}
	if json.Unmarshal(last, &end) != nil || end.End == nil {
		return badger.ExportEnd{}, errors.New("the export was cut off; try again")
	}
	return *end.End, nil
}

func (a *app) salvage(ctx context.Context, w io.Writer, p *storePlace, args []string, status bool) (badger.ExportEnd, error) {
	dir, key, err := a.folder(p, args)
	if err != nil {
		return badger.ExportEnd{}, err
	}
	done, err := badger.Salvage(ctx, dir, key, w, badger.ExportOptions{Status: status})
	for _, left := range done.Left {
		fmt.Fprintln(a.Err, a.loud("! left out: "+strings.TrimSpace(shadowFolder.ReplaceAllLiteralString(left, filepath.Join(dir, "data")))))
	}
	if err == nil && len(done.Left) > 0 && done.Export.Damaged == 0 {
		fmt.Fprintln(a.Err, "resources in it are missing from the export, or older there than they were")
		return done.Export, errSilent{ExitError}
	}
	return done.Export, err
}
