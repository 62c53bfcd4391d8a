package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

const planPath = "/v1/plan"

// Bounds of one plan.
const (
	planAhead = 16 // lines that are looked into at once, and held in memory
	planDeaf  = 5  // looks without an answer, one after the other, until a sink is not asked any more
)

// diffPatience is how long one comparison may take: the delivery under way, the sink's
// rate and the look.
const diffPatience = 2 * time.Minute

func (s *Server) planRoutes(a huma.API) {
	huma.Register(a, operation(a, "diff-resource", http.MethodGet, resourcePath+"/diff", "Compare a resource with its target",
		"Looks at the target once and says where it differs from what is desired, and what would be done about it. It changes nothing, "+
			"counts as no attempt, and waits for the resource's delivery that is under way.",
		404, 422), s.diff)
	op := operation(a, "plan", http.MethodPost, planPath, "Say what would change at the targets",
		"One JSON object a line in, one JSON object a line out, in the same order, while later ones are sent. Each is looked at once at its target; "+
			"nothing is stored, and nothing is changed there. A line with a payload asks what a Put would come to, one with delete what a deletion would, "+
			"one with sink and key alone how the target stands to what is stored. An answer with line 0 and an error ends the plan early and says why. "+
			"It takes the scope read; write for a payload where the sink has sensitive paths.")
	schema := a.OpenAPI().Components.Schemas
	op.Responses["200"] = &huma.Response{Description: "One line per line.", Content: map[string]*huma.MediaType{
		"application/x-ndjson": {Schema: huma.SchemaFromType(schema, reflect.TypeFor[api.PlanAnswer]())},
	}}
	huma.Register(a, op, func(_ context.Context, in *planInput) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			r, w := humago.Unwrap(ctx)
			p := &planner{s: s, values: in.Values, unanswered: map[string]int{}}
			s.lines(w, r, p.answer)
		}}, nil
	})
	documentBody[api.PlanLine](a, planPath, http.MethodPost, "application/x-ndjson", "One such object a line.")
}

type planInput struct {
	Values bool `query:"values" doc:"Show values at the paths that differ, where the adapter reports them; sensitive ones read \"***\"."`
}

type diffInput struct {
	KeyInput
	call
	Values bool `query:"values" doc:"Show values, as of a plan."`
}

func (s *Server) diff(ctx context.Context, in *diffInput) (*output[api.Difference], error) {
	limited, whole, done := s.waiting(ctx, &in.call, diffPatience)
	defer done()
	p, err := s.engine.Preview(limited, engine.Question{Key: in.key()})
	if errors.Is(err, context.DeadlineExceeded) && whole.Err() == nil {
		p.Action, p.Why = engine.ActionUnknown, fmt.Sprintf("it could not be looked at within %s", diffPatience)
		err = nil
	}
	return answer(whole, s, s.difference(&p, in.Values), err)
}

// difference is p as clients see it.
func (s *Server) difference(p *engine.Preview, values bool) api.Difference {
	return api.Difference{
		Sink: p.Key.Sink, Key: p.Key.Name, Generation: p.Generation, Tombstone: p.Tombstone, New: p.New,
		Action: string(p.Action), Why: p.Why, Looked: p.Looked, Exists: p.Exists, Same: p.Same, Drift: p.Drift,
		Paths: api.PathChanges(p.Differing, p.Payload, p.Content, s.mask(p.Key.Sink), values),
	}
}

// planner answers the lines of one plan.
type planner struct {
	s      *Server
	values bool

	mu         sync.Mutex
	unanswered map[string]int // by sink: looks in a row that the target did not answer
}

// answer answers lines in their order, a few at a time.
func (p *planner) answer(ctx context.Context, in *lineReader, out *answers) error {
	inOrder := make(chan chan []byte, planAhead)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for one := range inOrder {
			out.add(<-one)
		}
	}()
	defer func() {
		close(inOrder)
		<-written
	}()
	for {
		line, err := in.next()
		var bad *api.Problem
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.As(err, &bad):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && len(line) == 0:
			continue
		}
		one, number := make(chan []byte, 1), in.line
		inOrder <- one // which waits while planAhead of them are under way
		if bad != nil {
			bad.Line = number
			one <- marshalLine(api.PlanAnswer{Line: number, Error: bad})
			continue
		}
		go func() { one <- marshalLine(p.line(ctx, line, number)) }()
	}
}

func (p *planner) line(ctx context.Context, line []byte, number int) api.PlanAnswer {
	var l api.PlanLine
	if err := l.Decode(line); err != nil {
		return api.PlanAnswer{Line: number, Error: inLine(err, number)}
	}
	d, err := p.difference(ctx, &l)
	if err != nil {
		problem := *p.s.problem(ctx, err)
		problem.Line = number
		return api.PlanAnswer{Line: number, Error: &problem}
	}
	return api.PlanAnswer{Line: number, Difference: d}
}

func (p *planner) difference(ctx context.Context, l *api.PlanLine) (*api.Difference, error) {
	q := question(l)
	scope := access.Read
	if q.Put != nil && p.s.mask(q.Key.Sink).Hides() {
		scope = access.Write // else who may not see a short secret tries out here what it is
	}
	if err := may(ctx, scope, q.Key); err != nil {
		return nil, err
	}
	if n := p.deaf(l.Sink); n >= planDeaf {
		return &api.Difference{Sink: l.Sink, Key: l.Key, Tombstone: l.Delete, Action: api.ActionUnknown,
			Why: fmt.Sprintf("not asked: the target did not answer the last %d looks", n)}, nil
	}
	seen, err := p.s.engine.Preview(ctx, q)
	if l.Delete && errors.Is(err, engine.ErrNotFound) {
		return &api.Difference{Sink: l.Sink, Key: l.Key, Tombstone: true, Action: api.ActionNone, Same: true,
			Why: "there is no such resource, so that nothing is deleted"}, nil
	}
	if err != nil {
		return nil, err
	}
	p.heard(l.Sink, seen.Status)
	d := p.s.difference(&seen, p.values)
	return &d, nil
}

// question is what l asks of the engine.
func question(l *api.PlanLine) engine.Question {
	q := engine.Question{Key: record.Key{Sink: l.Sink, Name: l.Key}}
	switch asked := put(q.Key, &l.PutRequest); {
	case l.Delete:
		q.Delete = &engine.Delete{
			Key: q.Key, Deletion: asked.Deletion, DeletionElse: l.DeletionElse, Order: asked.Order, OrderPartial: asked.OrderPartial,
			IfGeneration: asked.IfGeneration, Owner: asked.Owner, TakeOver: asked.TakeOver,
		}
	case !l.Stored():
		q.Put = &asked
	}
	return q
}

// deaf returns how many looks of a sink in a row were not answered: of a target that
// is away each costs its whole timeout.
func (p *planner) deaf(sinkName string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unanswered[sinkName]
}

func (p *planner) heard(sinkName string, status sink.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case status == 0: // none was made
	case status.Answered() && status != sink.Unauthorized:
		p.unanswered[sinkName] = 0
	default:
		p.unanswered[sinkName]++
	}
}
