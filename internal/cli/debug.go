package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/internal/wholefile"
)

func (a *app) debugCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "debug",
		Short: "Gather what helps to find out what is wrong",
		Args:  onlyCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.debugBundleCommand())
	return cmd
}

func (a *app) debugBundleCommand() *cobra.Command {
	var (
		file string
		keys bool
	)
	cmd := &cobra.Command{
		Use:   "bundle [-f FILE]",
		Short: "Write what somebody needs who is to find out what is wrong",
		Long: `Bundle has the running daemon gather, in one .tar.gz: version and build, the
configuration as ` + "`pawl config show`" + ` prints it, the status, sinks, sources, sagas that
have not ended, metrics, the store's figures, profiles of goroutines and memory, the
newest warnings and errors of the log, and index.json, which says what is in it.

It holds no payloads, no credentials and nothing that plugins log. Keys, ids of sagas
and texts of errors, in which a target may quote values, read "[withheld]", unless
--keys asks for them. The configuration is in it with names, addresses and saga
templates: read the bundle before you send it to somebody.

FILE is for you alone to read, and has its name only once it is whole. An existing
FILE is not overwritten. The token needs the scope admin.`,
		Example: "  pawl debug bundle\n  pawl debug bundle --keys -f - | ssh desk 'cat > pawl.tar.gz'",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "-" && a.OutTerminal {
				return usage(cmd, "a bundle is nothing to read on a terminal; name a file, or pipe it somewhere")
			}
			if file == "" {
				file = "pawl-debug-" + a.Now().UTC().Format("20060102T150405Z") + ".tar.gz"
			}
			index, err := a.debugBundle(cmd.Context(), file, keys)
			if errors.Is(err, client.ErrUnreachable) {
				return fmt.Errorf("%w\n%s", err, withoutDaemon)
			}
			if err != nil {
				return err
			}
			a.printBundle(file, index)
			return nil
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", `file to write, or "-" for standard output (default pawl-debug-TIME.tar.gz)`)
	cmd.Flags().BoolVar(&keys, "keys", false, "show keys, ids of sagas and texts of errors too")
	return cmd
}

// withoutDaemon is what there is where the daemon can't make a bundle.
const withoutDaemon = `The daemon makes the bundle. Where it can't be reached, gather instead:
  its log, which journalctl -u pawl or kubectl logs shows
  pawl version, and pawl config show
  pawl store check, once it has ended
A daemon that runs and does not answer writes what every goroutine does to its log, and ends, at kill -QUIT PID.`

// debugBundle writes a bundle to a file, or "-", and returns its index.
func (a *app) debugBundle(ctx context.Context, to string, keys bool) (index *api.BundleIndex, err error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if to == "-" {
		return copyBundle(ctx, c, a.Out, keys)
	}
	f, err := wholefile.Create(to)
	if err != nil {
		return nil, err
	}
	index, err = copyBundle(ctx, c, f, keys)
	return index, f.Finish(err)
}

func copyBundle(ctx context.Context, c *client.Client, to io.Writer, keys bool) (*api.BundleIndex, error) {
	from, err := c.DebugBundle(ctx, keys)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	index, err := readBundle(io.TeeReader(from, to))
	if err != nil {
		return nil, fmt.Errorf("the bundle is not whole; ask for it again: %w", err)
	}
	return index, nil
}

// readBundle reads a bundle to its end, and returns its index.
func readBundle(from io.Reader) (*api.BundleIndex, error) {
	packed, err := gzip.NewReader(from)
	if err != nil {
		return nil, err
	}
	files := tar.NewReader(packed)
	var index *api.BundleIndex
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if h.Name != api.BundleDir+api.BundleIndexName {
			continue
		}
		if err := json.NewDecoder(files).Decode(&index); err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	// The checksum stands behind the end of the archive.
	if _, err := io.Copy(io.Discard, packed); err != nil {
		return nil, err
	}
	if index == nil {
		return nil, errors.New("it has no " + api.BundleIndexName)
	}
	_, err = io.Copy(io.Discard, from)
	return index, err
}

// printBundle says what is in a bundle; on standard error, where the bundle has the
// standard output.
func (a *app) printBundle(file string, index *api.BundleIndex) {
	out, what := a.Out, file
	if file == "-" {
		out, what = a.Err, "the bundle"
	}
	var bytes int64
	for _, m := range index.Members {
		bytes += int64(m.Bytes)
	}
	fmt.Fprintf(out, "%s: %s, %s unpacked\n", what, plural(len(index.Members)+1, "file"), size(bytes))
	for _, m := range index.Members {
		if m.Error != "" {
			fmt.Fprintln(out, a.loud("! "+m.Name+" could not be had: "+m.Error))
			continue
		}
		fmt.Fprintf(out, "  %-15s %s\n", m.Name, m.What)
	}
	if index.Keys {
		fmt.Fprintln(out, "It has keys and texts of errors, in which targets may quote values.")
	}
	fmt.Fprintln(out, "Read it before you send it: it has no payloads and no credentials, but names and addresses of your configuration.")
}
