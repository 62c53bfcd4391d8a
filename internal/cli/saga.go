package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/internal/manifest"
)

const sagaLong = `A saga writes to several targets: in the end all of them are written, or none,
whatever dies in between. docs/sagas.md says what that takes and what it promises.`

func (a *app) sagaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "saga",
		Short: "Write to several targets, all or none",
		Long:  sagaLong,
		Args:  onlyCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.sagaRunCommand(), a.sagaGetCommand(), a.sagaListCommand(), a.sagaTemplatesCommand(), a.sagaExplainCommand(), a.sagaWaitCommand(), a.sagaResolveCommand())
	return cmd
}

const sagaRunLong = `Run starts a saga and waits for its outcome. A file holds one, as YAML or JSON:

  id: ns-foo                     # optional: the same id and content are the same saga
  mode: pessimistic              # or optimistic
  timeout: 30s                   # optional: how long it tries to go forward
  refusePuts: false              # optional: refuse Puts of its resources meanwhile
  steps:                         # in this order
    - {sink: permissions, key: ns/foo, verb: create, payload: {owner: u1}}
    - {sink: cluster, key: ns/foo, verb: create, payload: {kind: Namespace}}

verb is create, upsert or delete; a step may have after: forget, and payloadBase64
for bytes that are no JSON. With --template the daemon's configuration has the
steps, and --param fills them in: name=value is a string, name:=value any JSON.

Whoever interrupts run leaves the saga running. The exit code is 0 when all is
written, 6 when nothing of it is left, and 3 when that is not known yet.`

type sagaRunFlags struct {
	file, id, template string
	params             []string
	wait               time.Duration
}

func (a *app) sagaRunCommand() *cobra.Command {
	var f sagaRunFlags
	cmd := &cobra.Command{
		Use:   "run -f FILE|- | --template NAME",
		Short: "Run a saga",
		Long:  sagaRunLong,
		Example: `  pawl saga run -f saga.yaml
  pawl saga run --template create-namespace --param user=u1 --param namespace=foo`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case (f.file == "") == (f.template == ""):
				return usage(cmd, "name either a file with -f, - for standard input, or a template with --template")
			case f.file != "" && f.params != nil:
				return usage(cmd, "--param fills in a template and does not go with -f")
			case f.wait < 0:
				return usage(cmd, "--wait %s is less than nothing; 0s does not wait", f.wait)
			case f.id != "" && !api.IsSagaID(f.id):
				return usage(cmd, "%q can't be a saga's id; use letters, digits and . _ : @ -", f.id)
			}
			return exactly()(cmd, args)
		},
	}
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "file with the saga, or - for standard input")
	cmd.Flags().StringVar(&f.id, "id", "", "the saga's id (default the file's, else one is made up)")
	cmd.Flags().StringVar(&f.template, "template", "", "template of the daemon's configuration")
	cmd.Flags().StringArrayVar(&f.params, "param", nil, "parameter of the template, as name=value or name:=JSON; may be given many times")
	cmd.Flags().DurationVar(&f.wait, "wait", 0, "how long to wait for the outcome, at most 10m; 0s: not at all (default its timeout and 5s)")
	a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := a.sagaRequest(cmd, &f)
		if err != nil {
			return err
		}
		return a.withClient(func(c *client.Client) error { return a.runSaga(cmd.Context(), c, r) })
	}
	return cmd
}

// withClient calls do with a client of the daemon.
func (a *app) withClient(do func(*client.Client) error) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// sagaRequest is what the flags ask for. It has an id, so that whoever loses the
// connection can ask again.
func (a *app) sagaRequest(cmd *cobra.Command, f *sagaRunFlags) (r api.SagaRequest, err error) {
	if f.template != "" {
		r.Template = f.template
		r.Params, err = sagaParams(cmd, f.params)
	} else {
		r, err = a.readSaga(f.file)
	}
	if err != nil {
		return r, err
	}
	if f.id != "" {
		r.ID = f.id
	}
	if r.ID == "" {
		r.ID = strings.ToLower(rand.Text())
	}
	if cmd.Flags().Changed("wait") {
		r.Wait = (*api.Duration)(&f.wait)
	}
	return r, nil
}

func (a *app) readSaga(file string) (r api.SagaRequest, err error) {
	var content []byte
	name := file
	if file == "-" {
		name = "stdin"
		content, err = io.ReadAll(a.In)
	} else {
		content, err = os.ReadFile(file)
	}
	if err != nil {
		return r, err
	}
	value, isYAML, err := manifest.Value(content, name)
	if err != nil {
		return r, err
	}
	err = r.Decode(value)
	if p := problemOf(err); p != nil {
		if isYAML && p.Line > 0 { // which is a place in the JSON that nobody has seen
			p.Detail = strings.TrimPrefix(p.Detail, fmt.Sprintf("line %d, column %d: ", p.Line, p.Column))
		}
		err = fmt.Errorf("%s: %w", name, p)
	}
	return r, err
}

// sagaParams reads name=value and name:=JSON.
func sagaParams(cmd *cobra.Command, args []string) (json.RawMessage, error) {
	params := map[string]json.RawMessage{}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		raw, _ := marshal(value)
		if literal, isJSON := strings.CutSuffix(name, ":"); isJSON {
			name, raw = literal, []byte(value)
		}
		switch {
		case !ok || name == "":
			return nil, usage(cmd, "%q is no parameter; write name=value, or name:=JSON", arg)
		case !json.Valid(raw):
			return nil, usage(cmd, "the parameter %s is not JSON: %s; write %s=%s for a string", name, value, name, value)
		case params[name] != nil:
			return nil, usage(cmd, "the parameter %s is given twice", name)
		}
		params[name] = raw
	}
	return marshal(params)
}

func (a *app) runSaga(ctx context.Context, c *client.Client, r api.SagaRequest) error {
	v, err := c.RunSaga(ctx, r)
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(a.Err, "pawl: saga %s goes on, if it was begun; see `pawl saga wait %s`\n", r.ID, r.ID)
		return err
	case errors.Is(err, client.ErrUnreachable):
		return fmt.Errorf("%w; if saga %s was begun, it goes on: run it again with --id %s to learn its outcome", err, r.ID, r.ID)
	case err != nil:
		return err
	}
	return a.reportSaga(&v)
}

// reportSaga prints the outcome of a saga and ends as it says.
func (a *app) reportSaga(v *api.Saga) error {
	if err := a.print(v, func() {
		if v.Outcome != "" {
			fmt.Fprintf(a.Out, "saga %s: %s\n", v.ID, v.Outcome)
		}
	}); err != nil {
		return err
	}
	switch v.Outcome {
	case api.SagaCommitted:
		return nil
	case api.SagaRolledBack:
		fmt.Fprintf(a.Err, "pawl: nothing of saga %s is left: %s\n", v.ID, v.Failure())
		return errSilent{ExitRolledBack}
	}
	fmt.Fprintf(a.Err, "pawl: the outcome of saga %s is not known yet; see `pawl saga explain %s`\n", v.ID, v.ID)
	return errSilent{ExitNotAcked}
}

func (a *app) sagaWaitCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait ID",
		Short: "Wait until a saga's outcome is known",
		Long: `Wait ends when the outcome is known, or when time is up. The exit code is 0 when
all is written, 6 when nothing of it is left, and 3 when that is not known yet.`,
		Args:              sagaID,
		ValidArgsFunction: a.completeSagas,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				limited, cancel := cmd.Context(), context.CancelFunc(func() {})
				if timeout > 0 {
					limited, cancel = context.WithTimeout(limited, timeout)
				}
				defer cancel()
				v, err := c.WaitSaga(limited, args[0])
				if errors.Is(err, context.DeadlineExceeded) {
					v, err = c.Saga(cmd.Context(), args[0], false)
				}
				if err != nil {
					return err
				}
				return a.reportSaga(&v)
			})
		},
	}
	timeoutFlag(cmd, &timeout)
	a.outputFlag(cmd)
	return cmd
}

func (a *app) sagaResolveCommand() *cobra.Command {
	var as string
	resolutions := []string{"retry", "committed", "rolled-back"}
	cmd := &cobra.Command{
		Use:   "resolve ID --as retry|committed|rolled-back",
		Short: "Decide about a saga that can't be ended",
		Long: `Resolve is for a saga whose outcome is not known; ` + "`pawl saga explain`" + ` says why.

  retry         what it is stuck at is tried again
  committed     you vouch that all of its steps are written at their targets
  rolled-back   you vouch that none of them is

The last two write nothing: look at the targets, and put them right first. It
returns when the decision is durable.`,
		Example: "  pawl saga resolve ns-foo --as retry",
		Args: func(cmd *cobra.Command, args []string) error {
			switch as {
			case "retry", "committed", "rolled-back":
				return sagaID(cmd, args)
			case "":
				return usage(cmd, "say with --as what it is resolved as: retry, committed or rolled-back")
			}
			return usage(cmd, "a saga can't be resolved as %q; use retry, committed or rolled-back", as)
		},
		ValidArgsFunction: a.completeSagas,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				v, err := c.ResolveSaga(cmd.Context(), args[0], as)
				if err != nil {
					return err
				}
				return a.print(v, func() {
					fmt.Fprintf(a.Out, "saga %s: %s\n", v.ID, ternary(as == "retry", "will be tried again", "resolved as "+as))
				})
			})
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "retry, committed or rolled-back")
	_ = cmd.RegisterFlagCompletionFunc("as", cobra.FixedCompletions(resolutions, cobra.ShellCompDirectiveNoFileComp))
	a.outputFlag(cmd)
	return cmd
}

// sagaID wants one argument that can be a saga's id.
func sagaID(cmd *cobra.Command, args []string) error {
	if err := exactly("ID")(cmd, args); err != nil {
		return err
	}
	if !api.IsSagaID(args[0]) {
		return usage(cmd, "%q can't be a saga's id; `pawl saga list` shows those that there are", args[0])
	}
	return nil
}

// completeSagas offers the ids of sagas.
func (a *app) completeSagas(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	var out []string
	if len(args) == 0 {
		_ = a.withClient(func(c *client.Client) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
			defer cancel()
			page, err := c.Sagas(ctx, false, "", pageSize)
			for i := range page.Items {
				if strings.HasPrefix(page.Items[i].ID, toComplete) && len(out) < completions {
					out = append(out, page.Items[i].ID)
				}
			}
			return err
		})
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
