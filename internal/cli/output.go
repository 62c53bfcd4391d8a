package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/pawlsync/pawl/engine/record"
)

// outputFlag gives cmd the flag -o.
func (a *app) outputFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&a.output, "output", "o", "table", "what to print: table, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		switch a.output {
		case "table", "json", "yaml":
		default:
			return usage(cmd, "unknown output %q; use table, json or yaml", a.output)
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}

// print writes v as JSON or YAML, or calls table.
func (a *app) print(v any, table func()) error {
	if a.output == "table" {
		table()
		return nil
	}
	raw, err := marshal(v)
	if err != nil {
		return err
	}
	if a.output == "yaml" {
		return writeYAML(a.Out, raw)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return err
	}
	_, err = out.WriteTo(a.Out)
	return err
}

// printLine is print for a stream: JSON on one line each, or YAML documents.
func (a *app) printLine(v any, table func()) error {
	switch a.output {
	case "json":
		raw, err := marshal(v)
		if err != nil {
			return err
		}
		_, err = a.Out.Write(raw)
		return err
	case "yaml":
		fmt.Fprintln(a.Out, "---")
	}
	return a.print(v, table)
}

func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return out.Bytes(), err
}

// writeYAML prints JSON as YAML: members keep their order, numbers their digits.
func writeYAML(w io.Writer, raw []byte) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	node, err := yamlNode(dec)
	if err != nil {
		return err
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return err
	}
	return enc.Close()
}

func yamlNode(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	node := &yaml.Node{Kind: yaml.ScalarNode}
	switch v := token.(type) {
	case json.Delim:
		node.Kind = yaml.MappingNode
		if v == '[' {
			node.Kind = yaml.SequenceNode
		}
		for dec.More() { // of an object: name and value in turns
			child, err := yamlNode(dec)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
		_, err = dec.Token() // the closing one
	case string:
		node.SetString(v)
	case json.Number:
		node.Value = v.String()
	case bool:
		node.Value = fmt.Sprint(v)
	case nil:
		node.Value = "null"
	}
	return node, err
}

// table prints rows under a header, columns two spaces apart. The last column
// is cut at the terminal's edge.
type table struct {
	app  *app
	rows [][]string
	// colour paints a cell, once it is padded; nil: none.
	colour func(column int, cell string) string
}

func (a *app) table(header ...string) *table { return &table{app: a, rows: [][]string{header}} }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print() {
	last := len(t.rows[0]) - 1
	widths := make([]int, last+1)
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	left := 0 // columns left of the last one
	for _, w := range widths[:last] {
		left += w + 2
	}
	var out strings.Builder
	for n, row := range t.rows {
		for i, cell := range row {
			switch {
			case i < last:
				out.WriteString(t.paint(n, i, cell))
				out.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			default:
				out.WriteString(t.paint(n, i, t.app.cut(cell, left)))
			}
		}
		line := strings.TrimRight(out.String(), " ")
		out.Reset()
		fmt.Fprintln(t.app.Out, line)
	}
}

func (t *table) paint(row, column int, cell string) string {
	if row == 0 || t.colour == nil || !t.app.colours || cell == "" {
		return cell
	}
	return t.colour(column, cell)
}

// cut shortens a cell that starts at column left to what a terminal still shows.
func (a *app) cut(cell string, left int) string {
	room := a.Width - left
	if !a.OutTerminal || room < 10 || utf8.RuneCountInString(cell) <= room {
		return cell
	}
	return string([]rune(cell)[:room-1]) + "…"
}

// paintPhase colours a phase: green is done, yellow on its way, red needs somebody.
func paintPhase(phase string) string {
	colour := "33"
	switch record.Phase(phase) {
	case record.AckedPhase:
		colour = "32"
	case record.Failed, record.Stalled, record.Drifted, record.Orphaned:
		colour = "31"
	}
	return "\x1b[" + colour + "m" + phase + "\x1b[0m"
}

// loud paints text as something that needs somebody.
func (a *app) loud(text string) string {
	if !a.colours {
		return text
	}
	return "\x1b[1;31m" + text + "\x1b[0m"
}

// age prints how long ago t was, with one unit; "-" where it never was.
func (a *app) age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return shortDuration(a.Now().Sub(t))
}

// until prints how long it is to t; "now" where that has passed.
func (a *app) until(t time.Time) string {
	if d := t.Sub(a.Now()); d > 0 {
		return "in " + shortDuration(d)
	}
	return "now"
}

func shortDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 2*day:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", d/day)
}

// plural prints "1 resource", "2 resources".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// size prints bytes as people read them.
func size(n int64) string {
	if n < 0 {
		return "unknown"
	}
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
