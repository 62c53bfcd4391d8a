package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestReferenceIsFresh(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "cli.md")
	got := markdown()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is stale; write it anew with: go test ./internal/cli -run Fresh -update", path)
	}
}

// markdown returns the reference of all commands as a page, docs/cli.md.
func markdown() string {
	root := new(app).root()
	var b strings.Builder
	b.WriteString("# Commands\n\n<!-- Generated from internal/cli; write it anew with: go test ./internal/cli -run Fresh -update -->\n\n")
	long, _, _ := strings.Cut(root.Long, "Exit codes:")
	b.WriteString(strings.TrimSpace(long) + "\n\nFlags of every command:\n\n")
	b.WriteString(flagTable(root.PersistentFlags()))
	b.WriteString("\n## Exit codes\n\n| code | |\n|---|---|\n")
	for line := range strings.Lines(strings.TrimSpace(strings.TrimPrefix(exitCodes, "Exit codes:\n"))) {
		code, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		fmt.Fprintf(&b, "| %s | %s |\n", code, strings.TrimSpace(what))
	}
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && c.IsAvailableCommand() {
				writeCommand(&b, c)
			}
		}
	}
	return b.String()
}

// writeCommand writes a command, or those that it holds.
func writeCommand(b *strings.Builder, c *cobra.Command) {
	if c.HasAvailableSubCommands() {
		for _, sub := range c.Commands() {
			writeCommand(b, sub)
		}
		return
	}
	if c.Name() == "help" {
		return
	}
	fmt.Fprintf(b, "\n### %s\n\n%s.\n\n```\n%s\n```\n", c.CommandPath(), c.Short, c.UseLine())
	if c.Long != "" {
		fmt.Fprintf(b, "\n%s\n", indentBlocks(c.Long))
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n```sh\n%s\n```\n", unindent(c.Example))
	}
	if c.LocalFlags().HasAvailableFlags() {
		fmt.Fprintf(b, "\n%s", flagTable(c.LocalFlags()))
	}
}

// indentBlocks makes code of what help texts indent by two spaces.
func indentBlocks(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "  ") {
			lines[i] = "  " + l
		}
	}
	return strings.Join(lines, "\n")
}

func unindent(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "  ")
	}
	return strings.Join(lines, "\n")
}

func flagTable(flags *pflag.FlagSet) string {
	var b strings.Builder
	b.WriteString("| flag | |\n|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		doc := f.Usage
		if d := f.DefValue; d != "" && d != "false" && d != "0" && d != "[]" {
			doc += " (default " + d + ")"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", name, strings.ReplaceAll(doc, "|", `\|`))
	})
	if strings.Count(b.String(), "\n") == 2 {
		return ""
	}
	return b.String()
}
