package cli

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/manifest"
)

// planItem is one document of a plan, as JSON has it.
type planItem struct {
	File     string `json:"file,omitempty"` // empty: no document, but what --source would delete
	FileLine int    `json:"fileLine,omitempty"`
	Sink     string `json:"sink,omitempty"`
	Key      string `json:"key,omitempty"`
	*api.Difference
	Error *api.Problem `json:"error,omitempty"`
}

// The words of a plan's summary.
const (
	countCreate    = "to create"
	countUpdate    = "to update"
	countDelete    = "to delete"
	countUnchanged = "unchanged"
	countLeft      = "left as they are"
	countRefused   = "refused"
	countWrong     = "wrong"
	countUnknown   = "unknown"
)

var planCounts = []string{countCreate, countUpdate, countDelete, countUnchanged, countLeft, countRefused, countWrong, countUnknown}

// planning is one run of pawl plan.
type planning struct {
	app     *app
	flags   *planFlags
	counts  map[string]int
	total   int
	refused int        // documents that pawl itself refuses
	owned   int        // of those, the ones that belong to a source
	items   []planItem // of -o json and yaml alone
	sweep   *sweep     // nil without --source

	mu    sync.Mutex
	asked []place // of lines that have no answer yet, and documents that are wrong, in their order
	empty error   // one of the files holds nothing
}

// place is where a document is, without its payload.
type place struct {
	file string
	line int
	key  record.Key
	err  error // it is wrong, and was not asked about
}

func (p place) String() string {
	if p.line == 0 {
		return p.file
	}
	return fmt.Sprintf("%s:%d", p.file, p.line)
}

func (a *app) plan(ctx context.Context, f *planFlags) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := sweepOf(ctx, c, f)
	if err != nil {
		return err
	}
	p := &planning{app: a, flags: f, counts: map[string]int{}, items: []planItem{}, sweep: s}
	if err := a.compare(ctx, c, f.values, p.lines, p.answer); err != nil {
		return err
	}
	if print := p.wrong(); print != nil {
		print()
	}
	if s != nil && s.err != nil {
		return s.err
	}
	p.mu.Lock()
	empty := p.empty
	p.mu.Unlock()
	if empty != nil {
		return empty
	}
	return p.end()
}

// planned is one document of a plan: what is to be asked, or what is wrong.
type planned struct {
	place
	line api.PlanLine
}

// lines are the documents as the daemon is asked about them. It runs beside answer.
func (p *planning) lines(yield func(api.PlanLine) bool) {
	documents := p.documents()
	if p.sweep != nil {
		documents = p.sweep.documents()
	}
	first := map[record.Key]place{}
	for d := range documents {
		if other, twice := first[d.key]; twice && d.err == nil {
			d.err = &manifest.Error{File: d.file, Line: d.place.line, What: fmt.Sprintf("%s is there twice, first at %s", d.key, other), Hint: "keep one of them"}
		}
		p.note(d.place)
		if d.err != nil {
			continue
		}
		first[d.key] = d.place
		if !yield(d.line) {
			return
		}
	}
	p.sweep.lines(first, func(key record.Key, line api.PlanLine) bool {
		p.note(place{key: key})
		return yield(line)
	})
}

// documents are those of all files, as apply reads them.
func (p *planning) documents() iter.Seq[planned] {
	return func(yield func(planned) bool) {
		for _, name := range p.flags.files {
			entries := manifest.Each(name)
			if name == "-" {
				entries = manifest.EachOf(p.app.In, "stdin")
			}
			empty := true
			for e := range entries {
				empty = false
				at := place{file: e.File, line: e.Line, key: e.Key, err: wrongIn(&e)}
				if !yield(planned{at, planLine(&e.Document)}) {
					return
				}
			}
			if empty {
				p.mu.Lock()
				p.empty = fmt.Errorf("%s holds no resource; a command that was to print some may have failed", ternary(name == "-", "standard input", name))
				p.mu.Unlock()
				return
			}
		}
	}
}

// wrongIn says what is wrong with a document; nil: nothing.
func wrongIn(e *manifest.Entry) error {
	switch {
	case len(e.Wrong) > 0:
		return e.Wrong
	case e.Object != nil:
		return e.AsObject()
	}
	return nil
}

func planLine(d *manifest.Document) api.PlanLine {
	line := api.PlanLine{Sink: d.Key.Sink, Key: d.Key.Name, Delete: d.Delete}
	if d.Delete {
		line.Deletion = d.Deletion
		return line
	}
	line.PutRequest = batchLine(d).PutRequest
	return line
}

func (p *planning) note(at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, at)
}

// next takes the first document that was noted.
func (p *planning) next(wrong bool) (at place, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) == 0 || wrong && p.asked[0].err == nil {
		return place{}, false
	}
	at = p.asked[0]
	p.asked = p.asked[1:]
	return at, true
}

// wrong counts the documents that are wrong and come before the next answer, and
// returns what prints them.
func (p *planning) wrong() func() {
	var errs []error
	for at, ok := p.next(true); ok; at, ok = p.next(true) {
		p.total++
		p.counts[countWrong]++
		errs = append(errs, at.err)
		p.keep(planItem{File: at.file, FileLine: at.line, Sink: at.key.Sink, Key: at.key.Name,
			Error: &api.Problem{Code: api.CodeInvalid, Detail: at.err.Error()}})
	}
	if errs == nil {
		return nil
	}
	return func() {
		for _, err := range errs {
			fmt.Fprintf(p.app.Err, "pawl: %v\n", err)
		}
	}
}

func (p *planning) keep(item planItem) {
	if p.app.output != "table" {
		p.items = append(p.items, item)
	}
}

// answer takes in the daemon's answer to one document.
func (p *planning) answer(answer *api.PlanAnswer) (func(), error) {
	wrong := p.wrong()
	at, ok := p.next(false)
	if !ok {
		return nil, fmt.Errorf("the daemon answered for line %d, which was not sent; is it of this version?", answer.Line)
	}
	p.total++
	item := planItem{File: at.file, FileLine: at.line, Sink: at.key.Sink, Key: at.key.Name, Difference: answer.Difference, Error: answer.Error}
	if item.Error != nil && item.File != "" {
		p.refused++
		if item.Error.Code == api.CodeOwned {
			p.owned++
		}
	}
	s := p.settle(&item)
	p.keep(item)
	return func() {
		if wrong != nil {
			wrong()
		}
		if p.app.output == "table" && (s.sign != "" || p.flags.all) {
			s.sign = cmp.Or(s.sign, " ")
			p.app.printShown(s)
		}
		switch {
		case item.Error == nil:
		case at.file == "":
			fmt.Fprintf(p.app.Err, "pawl: %v: %v\n", at.key, item.Error)
		default:
			fmt.Fprintf(p.app.Err, "pawl: %v: %v: %v\n", at, at.key, item.Error)
		}
	}, nil
}

// settle counts an item and says how it is shown.
func (p *planning) settle(item *planItem) shown {
	count := func(what, sign, text string) shown {
		p.counts[what]++
		return shown{sign: sign, text: text, d: item.Difference}
	}
	if item.Error != nil {
		item.Difference = &api.Difference{Sink: item.Sink, Key: item.Key, Action: api.ActionRefused}
	}
	switch d := item.Difference; {
	case item.Error != nil:
		return count(countRefused, signRefused, "refused")
	case d.Action == api.ActionCreate:
		return count(countCreate, signCreate, reasoned("create", d.Why))
	case d.Action == api.ActionUpdate:
		return count(countUpdate, signUpdate, reasoned("update", d.Why))
	case d.Action == api.ActionDelete && item.File == "":
		return count(countDelete, signDelete, "delete, since the source lacks it")
	case d.Action == api.ActionDelete:
		return count(countDelete, signDelete, reasoned("delete", d.Why))
	case d.Action == api.ActionRefused:
		return count(countRefused, signRefused, "refused by the target: "+d.Why)
	case d.Action == api.ActionUnknown:
		return count(countUnknown, signUnknown, "can't tell: "+d.Why)
	case d.Same:
		return count(countUnchanged, "", reasoned("unchanged", d.Why))
	}
	why := item.Why
	if item.Drift && why != "" {
		why = "changed by somebody else, and " + why
	}
	return count(countLeft, signLeft, reasoned("left as it is", why))
}

// end prints the summary and ends with the plan's exit code.
func (p *planning) end() error {
	changes := p.counts[countCreate] + p.counts[countUpdate] + p.counts[countDelete]
	troubles := p.counts[countRefused] + p.counts[countWrong] + p.counts[countUnknown]
	summary := map[string]int{
		"create": p.counts[countCreate], "update": p.counts[countUpdate], "delete": p.counts[countDelete], "unchanged": p.counts[countUnchanged],
		"left": p.counts[countLeft], "refused": p.counts[countRefused], "wrong": p.counts[countWrong], "unknown": p.counts[countUnknown],
	}
	out, sweeps := map[string]any{"items": p.items, "summary": summary}, ""
	if p.sweep != nil {
		outcome := p.sweep.outcome(p.refused)
		out["sweep"], sweeps = outcome, outcome.text()
	}
	err := p.app.print(out, func() {
		fmt.Fprintf(p.app.Out, "%s: %s.\n", plural(p.total, "resource"), cmp.Or(counted(p.counts, planCounts), "nothing to do"))
		if sweeps != "" {
			fmt.Fprintln(p.app.Out, sweeps)
		}
		if p.owned > 0 && p.sweep == nil {
			fmt.Fprintf(p.app.Out, "%s to a source: --source NAME plans a folder as the source of that name.\n", ternary(p.owned == 1, "1 of them belongs", fmt.Sprintf("%d of them belong", p.owned)))
		}
	})
	switch {
	case err != nil:
		return err
	case troubles > 0:
		return errSilent{ExitError}
	case changes > 0:
		return errSilent{ExitChanges}
	}
	return nil
}
