// Package cli holds pawl's commands. Main is all that a program needs of it.
//
// Commands print what was asked for on standard output, as a table for people
// or as JSON or YAML for programs, and what went wrong in one paragraph on
// standard error: what, where, and what to do. How a command ended is its exit
// code; see the Exit constants.
package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/internal/oci"
)

// The exit codes.
const (
	ExitDone        = 0 // what was asked for is done
	ExitError       = 1 // it is not, and standard error says why
	ExitUsage       = 2 // the command line makes no sense
	ExitChanges     = 2 // of plan and diff, where wrong usage is an error like others: there are differences
	ExitNotAcked    = 3 // waited, and the target did not confirm: time ran out, or it came to rest otherwise; of a saga: its outcome is not known yet
	ExitNotFound    = 4 // there is no such resource, saga, template, sink, source, token or file
	ExitUnreachable = 5 // no daemon answers
	ExitRolledBack  = 6 // nothing of the saga is left
	ExitInterrupted = 130
)

// exitCodes documents them, for the help and docs/cli.md.
const exitCodes = `Exit codes:
  0    done
  1    an error; standard error says which
  2    wrong usage; of plan, diff and config diff: there are differences, and all that goes wrong is 1
  3    waited, and the target did not confirm; or a saga's outcome is not known yet
  4    no such resource, saga, template, sink, source, token or file
  5    no daemon answers
  6    the saga is rolled back: nothing of it is left
  130  interrupted`

// Streams is the world that a command sees.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      []string // as os.Environ gives it
	Self     []string // how to start this program again; nil: it can't be

	// InTerminal: a person can be asked. OutTerminal and ErrTerminal: one reads along,
	// so that colours and progress are welcome. Width is the terminal's, in columns; 0: unknown.
	InTerminal, OutTerminal, ErrTerminal bool
	Width                                int

	Now func() time.Time // Defaults to time.Now.
}

// lookupEnv finds a variable, as os.LookupEnv does.
func (s *Streams) lookupEnv(name string) (string, bool) {
	for i := len(s.Env) - 1; i >= 0; i-- { // of a name that comes twice the last counts
		if n, value, ok := strings.Cut(s.Env[i], "="); ok && n == name {
			return value, true
		}
	}
	return "", false
}

// env returns a variable, or "".
func (s *Streams) env(name string) string {
	value, _ := s.lookupEnv(name)
	return value
}

// app is one run of the program.
type app struct {
	Streams
	version api.Version

	address   string
	tokenFile string
	tls       tlsFiles
	output    string // "table", "json" or "yaml"
	colours   bool
}

// Main runs the command that args name, without the program's own name, and
// returns its exit code. It ends early when ctx does.
func Main(ctx context.Context, args []string, s Streams, version api.Version) int {
	if s.Now == nil {
		s.Now = time.Now
	}
	a := &app{Streams: s, version: version, output: "table"}
	a.colours = s.OutTerminal && s.env("NO_COLOR") == "" && s.env("TERM") != "dumb"
	root := a.root()
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	cmd, err := root.ExecuteContextC(ctx)
	code := a.report(err)
	if _, said := errors.AsType[errSilent](err); !said && cmd.Annotations[compares] != "" && code != ExitDone && code != ExitInterrupted {
		return ExitError
	}
	return code
}

// errSilent ends a command whose own output said all there is to say.
type errSilent struct{ code int }

func (e errSilent) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// usageError is a command line that makes no sense.
type usageError struct {
	command *cobra.Command
	what    string
}

func (e *usageError) Error() string {
	see := "; see"
	if strings.HasSuffix(e.what, "?") {
		see = " See"
	}
	return fmt.Sprintf("%s%s `%s --help`", e.what, see, e.command.CommandPath())
}

func usage(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{command: cmd, what: fmt.Sprintf(format, args...)}
}

// report prints err and returns the exit code that it stands for.
func (a *app) report(err error) int {
	if err == nil {
		return ExitDone
	}
	if silent, ok := errors.AsType[errSilent](err); ok {
		return silent.code
	}
	code := exitCode(err)
	if code == ExitInterrupted {
		return code
	}
	prefix := "pawl: "
	if a.ErrTerminal && a.env("NO_COLOR") == "" {
		prefix = "\x1b[31mpawl:\x1b[0m "
	}
	fmt.Fprintln(a.Err, prefix+err.Error())
	return code
}

func exitCode(err error) int {
	_, isUsage := errors.AsType[*usageError](err)
	switch code := api.CodeOf(err); {
	case isUsage:
		return ExitUsage
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.Is(err, client.ErrUnreachable):
		return ExitUnreachable
	case code == api.CodeNotFound, code == api.CodeUnknownSink, code == api.CodeUnknownTemplate, code == api.CodeUnknownSource, errors.Is(err, fs.ErrNotExist), errors.Is(err, oci.ErrNotFound),
		errors.Is(err, access.ErrNoToken):
		return ExitNotFound
	}
	return ExitError
}

// client connects to the daemon that flags and environment name.
func (a *app) client() (*client.Client, error) {
	address := a.address
	if address == "" {
		address = a.env("PAWL_ADDRESS")
	}
	token := a.env("PAWL_TOKEN")
	if a.tokenFile != "" {
		content, err := os.ReadFile(a.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading the token of --token-file: %w", err)
		}
		token, _, _ = strings.Cut(strings.TrimSpace(string(content)), "\n")
	}
	config, err := a.tls.orElse(tlsFiles{a.env("PAWL_CA_FILE"), a.env("PAWL_CERT_FILE"), a.env("PAWL_KEY_FILE")}).config()
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{Address: address, Token: strings.TrimSpace(token), TLS: config})
}

// tlsFiles say whom to trust over https, and who we are.
type tlsFiles struct{ ca, cert, key string }

// orElse is f, and other where f names nothing; a certificate and its key belong
// together.
func (f tlsFiles) orElse(other tlsFiles) tlsFiles {
	f.ca = cmp.Or(f.ca, other.ca)
	if f.cert == "" && f.key == "" {
		f.cert, f.key = other.cert, other.key
	}
	return f
}

// config is nil where no file is named: the system's authorities count then.
func (f tlsFiles) config() (*tls.Config, error) {
	if f == (tlsFiles{}) {
		return nil, nil
	}
	config := &tls.Config{}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("reading the authorities of --ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca-file %s holds no PEM certificate", f.ca)
		}
	}
	if (f.cert == "") != (f.key == "") {
		return nil, errors.New("--cert-file and --key-file go together: a certificate is of no use without its key")
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("the client certificate of --cert-file and --key-file can't be used: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
