package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/internal/manifest"
)

const applyLong = `Apply puts what files say into the daemon's outbox. It is durable when apply
returns; --wait waits until the targets confirmed it.

A file holds YAML documents parted by ---, or JSON values one after the other,
or lists of either. Each is one resource:

  sink: web                      # required
  key: users/alice               # required
  payload: {name: Alice}         # any value; or payloadBase64 for bytes that are no JSON
  conflictPolicy: source-wins    # optional: source-wins, target-wins or report-only
  deletionPolicy: delete         # optional: delete, ack-then-delete or retain
  direction: outbound            # optional: outbound, inbound or both
  retry: {base: 1s, max: 1m, maxAttempts: 5, stall: 5m}  # optional, each; absent: as the sink says
  idempotencyKey: order-17       # optional: what calls for this payload bear; another payload needs another
  suspend: false                 # optional: store it, but call nothing
  delete: true                   # instead of a payload: the resource is to go

All files are read and checked before anything is sent. A payload becomes JSON:
keys of YAML mappings become strings, whatever they are (1, true). With direction:
inbound nothing is ever sent, and payload may be left out.

With --force SINK/KEY, apply sends the desired state that is stored already to
its target, whatever the conflict policy (as ` + "`pawl force`" + ` does).`

// checkPatience is how long a dry run waits for the daemon's list of sinks.
const checkPatience = 5 * time.Second

type applyFlags struct {
	files   []string
	dryRun  bool
	quiet   bool
	force   bool
	wait    bool
	timeout time.Duration
}

func (a *app) applyCommand() *cobra.Command {
	var f applyFlags
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR|- ...",
		Short: "Put desired state from files",
		Long:  applyLong,
		Example: `  pawl apply -f resources/ --wait
  echo '{"sink":"web","key":"users/alice","payload":{"name":"Alice"}}' | pawl apply -f -
  pawl apply --force web/users/alice`,
		Args: func(cmd *cobra.Command, args []string) error { return f.check(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.force {
				return a.operate(cmd, args, forceOrder)
			}
			return a.apply(cmd.Context(), &f)
		},
		ValidArgsFunction: a.completeKeys,
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.files, "file", "f", nil, "file, folder, or - for standard input; may be given many times")
	flags.BoolVar(&f.dryRun, "dry-run", false, "read and check the files, and the sinks if the daemon answers; send nothing")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print the summary alone")
	flags.BoolVar(&f.force, "force", false, "deliver the stored state of SINK/KEY whatever its conflict policy")
	waitFlags(cmd, &f.wait, &f.timeout)
	a.outputFlag(cmd)
	return cmd
}

func (f *applyFlags) check(cmd *cobra.Command, args []string) error {
	switch {
	case f.force && len(f.files) > 0:
		return usage(cmd, "--force names stored resources and takes no -f; apply the files first")
	case f.force && otherFlag(cmd) != "":
		return usage(cmd, "--force gives an order and returns; it does not go with --%s", otherFlag(cmd))
	case f.force:
		return atLeastOne("SINK/KEY")(cmd, args)
	case len(args) > 0:
		return usage(cmd, "apply takes its resources from -f, but got %s; did you mean `pawl apply -f %s`?", given(args), args[0])
	case len(f.files) == 0:
		return usage(cmd, "nothing to apply: name a file, a folder, or - for standard input with -f")
	}
	return nil
}

// otherFlag names a flag of apply that was given besides --force; "": none.
func otherFlag(cmd *cobra.Command) (name string) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "force" {
			name = f.Name
		}
	})
	return name
}

// applied is what became of one document.
type applied struct {
	Sink       string       `json:"sink"`
	Key        string       `json:"key"`
	Result     string       `json:"result"`
	Generation uint64       `json:"generation,omitempty"`
	Error      *api.Problem `json:"error,omitempty"`

	// What would be sent; of --dry-run alone.
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 []byte          `json:"payloadBase64,omitempty"`

	doc *manifest.Document
}

// The results of a document.
const (
	resultAccepted  = "accepted"
	resultReplaced  = "replaced" // accepted, and older work that waited is never delivered
	resultUnchanged = "unchanged"
	resultDeleted   = "deleted" // its tombstone is accepted
	resultAbsent    = "absent"  // it was to be deleted and is not there
	resultRefused   = "refused"
	resultChecked   = "checked" // by --dry-run
)

func (r *applied) name() string { return r.Sink + "/" + r.Key }

func (r *applied) settle(put api.PutResult) {
	r.Generation = put.Generation
	switch {
	case !put.Changed:
		r.Result = resultUnchanged
	case r.doc.Delete:
		r.Result = resultDeleted
	case put.Replaced:
		r.Result = resultReplaced
	default:
		r.Result = resultAccepted
	}
}

func (a *app) apply(ctx context.Context, f *applyFlags) error {
	docs, err := a.readManifests(f.files)
	if err != nil {
		return err
	}
	results := make([]*applied, len(docs))
	for i := range docs {
		results[i] = &applied{Sink: docs[i].Key.Sink, Key: docs[i].Key.Name, Result: resultChecked, doc: &docs[i]}
	}
	if f.dryRun {
		for _, r := range results {
			line := batchLine(r.doc)
			r.Payload, r.PayloadBase64 = line.Payload, line.PayloadBase64
		}
		unchecked := a.checkSinks(ctx, results)
		err := a.printApplied(results, f.quiet)
		if unchecked != nil {
			fmt.Fprintf(a.Err, "pawl: whether the sinks exist was not checked: %v\n", unchecked)
		}
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := send(ctx, c, results); err != nil {
		return err
	}
	if err := a.printApplied(results, f.quiet); err != nil || !f.wait {
		return err
	}
	return a.waitApplied(ctx, c, results, f.timeout)
}

// checkSinks refuses what names no sink of the daemon. The error says why it
// can't be asked, which a dry run does without.
func (a *app) checkSinks(ctx context.Context, results []*applied) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	sinks, err := c.Sinks(ctx)
	if err != nil {
		return err
	}
	var names, left []string
	for _, s := range sinks {
		if s.Configured {
			names = append(names, s.Name)
		} else {
			left = append(left, s.Name)
		}
	}
	for _, r := range results {
		if !slices.Contains(names, r.Sink) && !(r.doc.Delete && slices.Contains(left, r.Sink)) {
			r.Result = resultRefused
			r.Error = api.NewProblem(http.StatusNotFound, api.CodeUnknownSink, "there is no sink "+r.Sink, api.DidYouMean(r.Sink, names))
		}
	}
	return nil
}

func (a *app) readManifests(files []string) ([]manifest.Document, error) {
	var docs []manifest.Document
	for _, name := range files {
		var (
			ds  []manifest.Document
			err error
		)
		if name == "-" {
			ds, err = manifest.Read(a.In, "stdin")
		} else {
			ds, err = manifest.ReadPath(name)
		}
		if err != nil {
			return nil, err
		}
		if len(ds) == 0 {
			return nil, fmt.Errorf("%s holds no resource; a command that was to print some may have failed", ternary(name == "-", "standard input", name))
		}
		docs = append(docs, ds...)
	}
	return docs, nil
}

// send keeps the order of the documents: Puts that follow each other share a
// batch, a deletion goes alone.
func send(ctx context.Context, c *client.Client, results []*applied) error {
	for len(results) > 0 {
		puts := 0
		for puts < len(results) && !results[puts].doc.Delete {
			puts++
		}
		if puts > 0 {
			if err := sendPuts(ctx, c, results[:puts]); err != nil {
				return err
			}
			results = results[puts:]
			continue
		}
		if err := sendDelete(ctx, c, results[0]); err != nil {
			return err
		}
		results = results[1:]
	}
	return nil
}

func sendPuts(ctx context.Context, c *client.Client, results []*applied) error {
	for answer, err := range c.Batch(ctx, batchLines(results)) {
		if err != nil {
			return err
		}
		if answer.Line < 1 || answer.Line > len(results) {
			return fmt.Errorf("the daemon answered for line %d of %d; is it of this version?", answer.Line, len(results))
		}
		r := results[answer.Line-1]
		switch {
		case answer.Error != nil:
			r.Result, r.Error = resultRefused, answer.Error
		case answer.PutResult != nil:
			r.settle(*answer.PutResult)
		}
	}
	return nil
}

func batchLines(results []*applied) iter.Seq[api.BatchLine] {
	return func(yield func(api.BatchLine) bool) {
		for _, r := range results {
			if !yield(batchLine(r.doc)) {
				return
			}
		}
	}
}

func batchLine(d *manifest.Document) api.BatchLine {
	line := api.BatchLine{Sink: d.Key.Sink, Key: d.Key.Name, PutRequest: api.PutRequest{
		Conflict: d.Conflict, Deletion: d.Deletion, Suspend: d.Suspend, Direction: d.Direction,
		Retry: api.RetryOf(d.Retry), IdempotencyKey: d.IdempotencyKey,
	}}
	if d.Binary {
		line.PayloadBase64 = d.Payload
	} else {
		line.Payload = d.Payload
	}
	return line
}

func sendDelete(ctx context.Context, c *client.Client, r *applied) error {
	put, err := c.Delete(ctx, r.doc.Key, api.DeleteRequest{Deletion: r.doc.Deletion})
	problem := problemOf(err)
	switch {
	case err == nil:
		r.settle(put)
	case problem == nil:
		return err
	case problem.Code == api.CodeNotFound:
		r.Result = resultAbsent
	default:
		r.Result, r.Error = resultRefused, problem
	}
	return nil
}

// printApplied prints what became of each document and a summary; what was
// refused goes to standard error, with file and line, and ends in exit code 1.
func (a *app) printApplied(results []*applied, quiet bool) error {
	counts := map[string]int{}
	for _, r := range results {
		counts[r.Result]++
	}
	err := a.print(map[string]any{"items": results}, func() {
		if !quiet && len(results) > 0 {
			t := a.table("RESOURCE", "GENERATION", "RESULT")
			for _, r := range results {
				t.add(r.name(), generation(r.Generation), r.Result)
			}
			t.print()
		}
		fmt.Fprintln(a.Out, summary(len(results), counts))
	})
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.Error != nil {
			what := r.Error.Error()
			if !strings.Contains(what, r.name()) {
				what = r.name() + ": " + what
			}
			fmt.Fprintf(a.Err, "pawl: %s:%d: %s\n", r.doc.File, r.doc.Line, what)
		}
	}
	if counts[resultRefused] > 0 {
		return errSilent{ExitError}
	}
	return nil
}

func summary(total int, counts map[string]int) string {
	s := plural(total, "resource")
	sep := ": "
	for _, result := range []string{resultAccepted, resultReplaced, resultUnchanged, resultDeleted, resultAbsent, resultRefused, resultChecked} {
		if n := counts[result]; n > 0 {
			s += fmt.Sprintf("%s%d %s", sep, n, result)
			sep = ", "
		}
	}
	return s
}

func (a *app) waitApplied(ctx context.Context, c *client.Client, results []*applied, timeout time.Duration) error {
	var items []waitItem
	for _, r := range results {
		if r.Generation > 0 {
			items = append(items, waitItem{Key: r.doc.Key, Generation: r.Generation})
		}
	}
	return a.waitAndReport(ctx, c, items, timeout, false)
}
