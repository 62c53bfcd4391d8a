package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/conformance"
	"github.com/pawlsync/pawl/internal/nearest"
)

// ranOp is one op of `pawl plugin run`.
type ranOp struct {
	Op          string          `json:"op"`
	Status      string          `json:"status"`
	Message     string          `json:"message,omitempty"`
	RetryAfter  string          `json:"retry_after,omitempty"`
	WholeTarget bool            `json:"retry_after_target,omitempty"`
	Observation *ranObservation `json:"observation,omitempty"`
	Requests    []ranRequest    `json:"requests,omitempty"`
	Log         []string        `json:"log,omitempty"`
	LogHidden   int             `json:"log_hidden,omitempty"` // lines of the plugin's own, without --verbose
}

type ranObservation struct {
	Exists         bool              `json:"exists"`
	Ref            string            `json:"ref,omitempty"`
	CID            string            `json:"cid,omitempty"`
	UID            string            `json:"uid,omitempty"`
	Object         string            `json:"object,omitempty"`
	AsFound        string            `json:"as_found,omitempty"`
	MatchDesired   string            `json:"match_desired"`
	MatchAcked     string            `json:"match_acked"`
	MatchAttempted string            `json:"match_attempted"`
	Differing      []string          `json:"differing,omitempty"`
	Cursor         string            `json:"cursor,omitempty"`
	At             string            `json:"at,omitempty"`
	Meta           map[string]string `json:"meta,omitempty"`
	AdapterState   string            `json:"adapter_state,omitempty"`
	Content        string            `json:"content,omitempty"` // with --verbose
}

// ranRequest is one exchange with the target; bodies are there with --verbose.
type ranRequest struct {
	Request  string `json:"request"`         // method and path
	Status   int    `json:"status"`          // 0: no answer
	Error    string `json:"error,omitempty"` // why a real target gave none
	Sent     string `json:"sent,omitempty"`
	Received string `json:"received,omitempty"`
}

const pluginRunLong = `Run calls ops of the plugin in FILE by hand, in the order given: observe, apply and
delete, for the one resource that --key names, and prints how each ended. FILE may
also be the name of a bundled plugin. What an apply is acknowledged with goes to the
ops after it.

Config, payload and upstream are the fixture's, as of ` + "`pawl plugin test`" + `, where no
flag says otherwise; without either the target is the scripted key-value store,
which is empty at the start. It exits with 0 where all ops ended well.

With --verbose it shows the plugin's log lines and the bodies that went to the
target and came back: these may hold secrets.`

func (a *app) pluginRunCommand() *cobra.Command {
	var fixture, target, key, payload, config string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "run FILE OP...",
		Short: "Call a plugin by hand",
		Long:  pluginRunLong,
		Example: `  pawl plugin run things.wasm apply observe --key hello --payload hello.json
  pawl plugin run http observe --key hello --config config.json --upstream api=http://127.0.0.1:8080 -v`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage(cmd, "%s takes FILE and at least one OP, but got %s", words(cmd), given(args))
			}
			for _, op := range args[1:] {
				if slices.Contains(conformance.Ops(), op) {
					continue
				}
				if n := nearest.Of(op, conformance.Ops()); n != "" {
					return usage(cmd, "unknown op %q; did you mean %s?", op, n)
				}
				return usage(cmd, "unknown op %q; use %s", op, strings.Join(conformance.Ops(), ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			wasm, name, err := readModule(args[0])
			if err != nil {
				return err
			}
			o := conformance.Options{Host: a.hostOptions()}
			if o.Fixture, err = readFixture(fixture, args[0], target); err != nil {
				return err
			}
			if config != "" {
				if o.Fixture.Config, err = a.readConfigObject(config); err != nil {
					return err
				}
			}
			var content []byte
			if payload != "" {
				if content, err = a.readInput(payload); err != nil {
					return err
				}
			}
			s, err := conformance.Start(cmd.Context(), wasm, name, key, o)
			if err != nil {
				return err
			}
			defer s.Close()
			return a.runOps(cmd, s, args[1:], content, verbose)
		},
	}
	a.outputFlag(cmd)
	cmd.Flags().StringVar(&key, "key", "example", "key of the resource")
	cmd.Flags().StringVar(&payload, "payload", "", "file with the desired content; -: standard input (default the fixture's payloads.create)")
	cmd.Flags().StringVar(&config, "config", "", "file with the sink's plugin config, a JSON object (default the fixture's)")
	cmd.Flags().StringVar(&fixture, "fixture", "", "file that says what to try it with (default fixture.yaml beside FILE, if there is one)")
	cmd.Flags().StringVar(&target, "upstream", "", "[NAME=]URL of a real target, instead of the scripted one")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show log lines, and bodies of requests and answers")
	return cmd
}

func (a *app) runOps(cmd *cobra.Command, s *conformance.Session, ops []string, content []byte, verbose bool) error {
	var ran []ranOp
	ok := true
	for _, op := range ops {
		c, err := s.Do(cmd.Context(), op, content)
		if err != nil {
			return err
		}
		ok = ok && c.OK()
		ran = append(ran, ranOf(c, verbose))
	}
	if err := a.print(map[string]any{"items": ran}, func() { a.printRan(ran) }); err != nil {
		return err
	}
	if !ok {
		return errSilent{ExitError}
	}
	return nil
}

// readInput reads a file, or standard input for "-".
func (a *app) readInput(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(a.In)
	}
	return os.ReadFile(path)
}

func (a *app) readConfigObject(path string) (json.RawMessage, error) {
	raw, err := a.readInput(path)
	if err != nil {
		return nil, err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return nil, fmt.Errorf("--config %s is no JSON object%s", path, because(err))
	}
	return bytes.TrimSpace(raw), nil
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

func ranOf(c *conformance.Call, verbose bool) ranOp {
	r := ranOp{Op: c.Op, Status: c.Result.Status.String(), Message: c.Result.Message, WholeTarget: c.Result.RetryAfterTarget}
	if c.Result.RetryAfter > 0 {
		r.RetryAfter = c.Result.RetryAfter.String()
	}
	if o := c.Result.Observation; o != nil {
		r.Observation = observationOf(o, verbose)
	}
	for _, e := range c.Exchanges {
		q := ranRequest{Request: e.Method + " " + e.Path, Status: e.Status, Error: e.Error}
		if verbose {
			q.Sent, q.Received = printable(e.RequestBody), printable(e.ResponseBody)
		}
		r.Requests = append(r.Requests, q)
	}
	for _, l := range c.Lines {
		if verbose || !l.Guest {
			r.Log = append(r.Log, strings.ToLower(l.Level.String())+": "+l.Text)
		} else {
			r.LogHidden++
		}
	}
	return r
}

func observationOf(o *sink.Observation, verbose bool) *ranObservation {
	out := &ranObservation{
		Exists: o.Exists, Ref: o.Ref, CID: o.CID, UID: o.UID, Object: o.Object, AsFound: o.AsFound,
		MatchDesired: triWord(o.MatchDesired), MatchAcked: triWord(o.MatchAcked), MatchAttempted: triWord(o.MatchAttempted),
		Differing: o.Differing, Cursor: o.Cursor, Meta: o.Meta, AdapterState: printable(o.AdapterState),
	}
	if !o.At.IsZero() {
		out.At = o.At.UTC().Format(time.RFC3339)
	}
	if verbose {
		out.Content = printable(o.Content)
	}
	return out
}

func triWord(t sink.Tri) string {
	switch t {
	case sink.Yes:
		return "yes"
	case sink.No:
		return "no"
	}
	return "unknown"
}

// maxPrinted is how much of a body is shown, in bytes.
const maxPrinted = 2000

// printable is content for people: what is no text only by its size.
func printable(b []byte) string {
	if !utf8.Valid(b) {
		return fmt.Sprintf("%d bytes that are no text", len(b))
	}
	if len(b) > maxPrinted {
		return strings.ToValidUTF8(string(b[:maxPrinted]), "") + "…"
	}
	return string(b)
}

func (a *app) printRan(ran []ranOp) {
	for _, r := range ran {
		line := func(name, value string) {
			if value != "" {
				fmt.Fprintf(a.Out, "  %-16s %s\n", name, value)
			}
		}
		fmt.Fprintf(a.Out, "%s: %s\n", r.Op, r.Status)
		line("message", r.Message)
		line("retry after", r.RetryAfter)
		if o := r.Observation; o != nil {
			line("exists", fmt.Sprint(o.Exists))
			line("match_desired", o.MatchDesired)
			line("match_acked", o.MatchAcked)
			line("match_attempted", o.MatchAttempted)
			line("differing", strings.Join(o.Differing, " "))
			line("ref", o.Ref)
			line("uid", o.UID)
			line("cid", o.CID)
			line("object", o.Object)
			line("as_found", o.AsFound)
			line("adapter_state", o.AdapterState)
			line("content", o.Content)
		}
		for _, q := range r.Requests {
			answer := "no answer"
			if q.Status != 0 {
				answer = fmt.Sprint(q.Status)
			} else if q.Error != "" {
				answer += " (the target: " + q.Error + ")"
			}
			line("request", q.Request+" → "+answer)
			line("  sent", q.Sent)
			line("  received", q.Received)
		}
		for _, l := range r.Log {
			line("log", l)
		}
		if r.LogHidden > 0 {
			line("log", fmt.Sprintf("%d of the plugin's own lines are not shown; --verbose does", r.LogHidden))
		}
	}
}
