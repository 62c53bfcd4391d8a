package cli

import "github.com/spf13/cobra"

const planLong = `Plan reads files as apply does and says what would change at the targets if they
were applied. Every target is looked at; nothing is stored, and nothing is changed.

  + web/users/alice: create            the target does not have it
  ~ web/users/bob: update              it differs there, at the paths below
      ~ /name
  - web/users/carol: delete            the document says delete: true
  = web/users/dan: left as it is       it differs, and a policy says to leave it
  ! web/users/erin: refused            by pawl, or by the target
  ? web/users/fred: can't tell         the target does not answer, is suspended, …

What is as desired already is counted, and listed with --all. A path's sign says
what would happen there: + it is added, - it is removed, ~ it changes, or the
plugin does not report enough to tell. No values are shown, unless --values asks
for those that the plugin reports; sensitive ones stay hidden.

A document that is wrong is told with its file and line, and the rest is planned;
apply would refuse them all. Memory does not grow with the payloads: a file at a
time is read.

With --source NAME the folder of -f stands for the directory of a source of kind
dir, and is read as the source reads that: by its include and exclude, by the files
.pawlignore in the folder, and with manifests of Kubernetes if it takes them. The
documents are planned as its own; what it owns and they lack is planned to be
deleted, by its deletion policy, and the last line says whether its fuse would let
that through. What can't be taken is told behind the rest.

The exit code is that of terraform plan -detailed-exitcode: 0 nothing would
change, 1 something went wrong (of a document, too: refused, or it can't be told),
2 something would change.`

type planFlags struct {
	files  []string
	source string
	all    bool
	values bool
}

func (a *app) planCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan -f FILE|DIR|- ...",
		Short: "Say what apply would change at the targets, without changing anything",
		Long:  planLong,
		Example: `  pawl plan -f resources/
  pawl plan -f resources/ --source manifests
  pawl plan -f resources/ -o json | jq '.items[] | select(.action == "delete")'`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return usage(cmd, "plan takes its resources from -f, but got %s; did you mean `pawl plan -f %s`?", given(args), args[0])
			case len(f.files) == 0:
				return usage(cmd, "nothing to plan: name a file, a folder, or - for standard input with -f")
			case f.source != "" && (len(f.files) > 1 || f.files[0] == "-"):
				return usage(cmd, "--source wants one folder with -f, which stands for the directory of the source")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.plan(cmd.Context(), &f) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.files, "file", "f", nil, "file, folder, or - for standard input; may be given many times")
	flags.StringVar(&f.source, "source", "", "plan the folder as this source of kind dir would take it, what it would delete included")
	flags.BoolVar(&f.all, "all", false, "list what would not change, too")
	flags.BoolVar(&f.values, "values", false, "show values at the paths that differ, where the plugin reports them; sensitive ones as ***")
	_ = cmd.RegisterFlagCompletionFunc("source", a.completeSources)
	return a.comparison(cmd)
}
