package conformance

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// Outcome is how a check ended.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped" // it does not apply to this plugin or fixture
)

// Result is how one check ended.
type Result struct {
	ID        string        `json:"id"`
	Outcome   Outcome       `json:"outcome"`
	Wants     string        `json:"wants,omitempty"`     // of a failure: what the contract wants
	Text      string        `json:"text,omitempty"`      // of a failure: what happened; of a skipped check: why
	Fix       string        `json:"fix,omitempty"`       // of a failure: what to do
	Exchanges []Exchange    `json:"exchanges,omitempty"` // of a failure: the last ones at the target
	Took      time.Duration `json:"took_ns"`

	untried bool // skipped because the plugin does not start
}

// Report is a whole run.
type Report struct {
	Plugin  string        `json:"plugin"`            // as the caller named it
	SHA256  string        `json:"sha256"`            // of the module, in hex
	Name    string        `json:"name,omitempty"`    // by its manifest
	Version string        `json:"version,omitempty"` // by its manifest
	Target  string        `json:"target"`            // what it was tried against
	Results []Result      `json:"results"`
	Took    time.Duration `json:"took_ns"`
}

// Count returns how many checks ended so.
func (r *Report) Count(o Outcome) (n int) {
	for i := range r.Results {
		if r.Results[i].Outcome == o {
			n++
		}
	}
	return n
}

// WriteText writes the report for people: what failed in full, what was skipped
// in a line each, and of what passed only the number, or every check where
// verbose is set.
func (r *Report) WriteText(w io.Writer, verbose bool) error {
	var b strings.Builder
	name := r.Plugin
	if r.Name != "" {
		name = fmt.Sprintf("%s (%s %s)", r.Plugin, r.Name, r.Version)
	}
	fmt.Fprintf(&b, "%s, sha256 %.12s, against %s\n", name, r.SHA256, r.Target)
	untried := 0
	for i := range r.Results {
		c := &r.Results[i]
		switch {
		case c.Outcome == Failed:
			c.writeFailure(&b)
		case c.Outcome == Skipped && c.untried && !verbose:
			untried++
		case c.Outcome == Skipped:
			fmt.Fprintf(&b, "skip  %s: %s\n", c.ID, c.Text)
		case verbose:
			fmt.Fprintf(&b, "ok    %s (%s)\n", c.ID, c.Took.Round(time.Millisecond))
		}
	}
	if untried > 0 {
		fmt.Fprintf(&b, "skip  %d more checks, which need a plugin that starts: see the check \"opens\"\n", untried)
	}
	fmt.Fprintf(&b, "%d passed, %d failed, %d skipped in %s\n",
		r.Count(Passed), r.Count(Failed), r.Count(Skipped), r.Took.Round(10*time.Millisecond))
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *Result) writeFailure(b *strings.Builder) {
	fmt.Fprintf(b, "FAIL  %s\n", c.ID)
	part := func(name, text string) {
		fmt.Fprintf(b, "      %-9s %s\n", name, strings.ReplaceAll(text, "\n", "\n                "))
	}
	part("wanted:", c.Wants)
	part("happened:", c.Text)
	part("fix:", c.Fix)
	for i, e := range c.Exchanges {
		name := ""
		if i == 0 {
			name = "requests:"
		}
		part(name, e.String())
	}
}

// The elements of JUnit's XML, as far as build servers read them.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"` // seconds
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"` // seconds
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the report as JUnit's XML, one test case for each check.
func (r *Report) WriteJUnit(w io.Writer) error {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
	class := r.Name
	if class == "" {
		class = r.Plugin
	}
	s := junitSuite{Name: "pawl plugin test " + class, Tests: len(r.Results), Failures: r.Count(Failed), Skipped: r.Count(Skipped), Time: seconds(r.Took)}
	for i := range r.Results {
		c := &r.Results[i]
		out := junitCase{Class: class, Name: c.ID, Time: seconds(c.Took)}
		switch c.Outcome {
		case Failed:
			var b strings.Builder
			c.writeFailure(&b)
			out.Failure = &junitMessage{Message: c.Text, Text: b.String()}
		case Skipped:
			out.Skipped = &junitMessage{Message: c.Text}
		}
		s.Cases = append(s.Cases, out)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
