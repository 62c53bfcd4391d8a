package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

const resourcePath = "/v1/sinks/{sink}/resource"

func (s *Server) resourceRoutes(a huma.API) {
	huma.Register(a, operation(a, "put-resource", http.MethodPut, resourcePath, "Put a resource",
		"Stores what is desired of a resource; it is durable when the answer comes. A newer Put replaces what still waits.",
		400, 404, 409, 413, 422, 507), s.put)
	documentBody[api.PutRequest](a, resourcePath, http.MethodPut, "application/json", "The payload and how to treat it.")
	huma.Register(a, operation(a, "get-resource", http.MethodGet, resourcePath, "Get a resource",
		"Its payload is shown where payload=true asks for it; values at the sink's sensitive paths read \"***\" unless reveal=true.",
		404, 422), s.get)
	huma.Register(a, operation(a, "delete-resource", http.MethodDelete, resourcePath, "Delete a resource",
		"Stores a tombstone; it is durable when the answer comes. The record goes when the target confirmed the deletion.",
		404, 409, 422), s.delete)
	huma.Register(a, operation(a, "wait-resource", http.MethodGet, resourcePath+"/wait", "Wait for a resource",
		"Answers when the generation, or a newer one, is acknowledged, the resource is gone, or it came to rest otherwise.",
		404, 422), s.wait)
	huma.Register(a, operation(a, "explain-resource", http.MethodGet, resourcePath+"/explain", "Explain a resource",
		"Says in words why a resource is where it is and what happens next, with its history. Never shows payload.",
		404, 422), s.explain)
}

type putInput struct {
	KeyInput
	call
}

func (s *Server) put(ctx context.Context, in *putInput) (*output[api.PutResult], error) {
	body, err := s.readBody(&in.call)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	var p api.PutRequest
	if err := p.Decode(body); err != nil {
		return nil, s.problem(ctx, err)
	}
	r, err := s.engine.Put(ctx, put(in.key(), &p))
	noteGeneration(ctx, r.Generation)
	return answer(ctx, s, putResult(r), err)
}

// putMaxBytes bounds the body of one Put, or one line of a batch: the payload,
// which is a third longer in base64, and what is around it. The engine judges
// the payload itself.
func (s *Server) putMaxBytes() int { return s.o.PayloadMaxBytes/3*4 + 64<<10 }

func (s *Server) readBody(c *call) ([]byte, error) {
	limit := s.putMaxBytes()
	// It ends with the body: net/http takes it back there.
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(s.o.IOTimeout))
	body, err := io.ReadAll(io.LimitReader(c.r.Body, int64(limit)+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, api.NewProblem(http.StatusRequestTimeout, api.CodeBadRequest, fmt.Sprintf("the body did not come within %s", s.o.IOTimeout), "")
	case err != nil:
		return nil, api.NewProblem(http.StatusBadRequest, api.CodeBadRequest, "the body can't be read: "+err.Error(), "")
	}
	if len(body) > limit {
		return nil, api.NewProblem(http.StatusRequestEntityTooLarge, api.CodeTooLarge,
			fmt.Sprintf("the body has more than %d bytes; a payload may have %d", limit, s.o.PayloadMaxBytes), "limits.payload_max_bytes sets the limit")
	}
	return body, nil
}

type getInput struct {
	KeyInput
	Payload bool `query:"payload" doc:"Show the payload."`
	Reveal  bool `query:"reveal" doc:"Show sensitive values of it too."`
}

func (s *Server) get(ctx context.Context, in *getInput) (*output[api.Resource], error) {
	r, err := s.engine.Get(ctx, in.key())
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := s.resource(&r, true)
	out.HeldBy = s.engine.HeldBy(r.Key)
	if in.Payload {
		if in.Reveal {
			if err := may(ctx, access.Admin, in.key()); err != nil {
				return nil, s.problem(ctx, err)
			}
		}
		s.showPayload(&out, &r, in.Reveal)
	}
	return answer(ctx, s, out, nil)
}

func (s *Server) showPayload(out *api.Resource, r *engine.Resource, reveal bool) {
	mask := s.mask(r.Key.Sink)
	if reveal {
		mask = api.Mask{}
	}
	if !r.Desired.Tombstone {
		out.Payload, out.PayloadBase64, out.PayloadHidden = mask.Show(r.Desired.Payload)
	}
	if seen := out.Status.Observed; seen != nil {
		seen.Content, seen.ContentBase64, seen.ContentHidden = mask.Show(r.Status.Observed.Content)
	}
}

type deleteInput struct {
	KeyInput
	Deletion     string           `query:"deletionPolicy" enum:"delete,ack-then-delete,retain" doc:"What becomes of the target's object. Defaults to the resource's, else the sink's."`
	IfGeneration optional[uint64] `query:"ifGeneration" doc:"The generation that the resource must have now."`
	OrderSource  string           `query:"orderSource" doc:"The source of the order; absent: no check."`
	OrderEpoch   string           `query:"orderEpoch" doc:"The source's incarnation."`
	OrderNumber  uint64           `query:"orderNumber" doc:"Grows within an epoch."`
	OrderPartial bool             `query:"orderPartial" doc:"The number does not cover the content."`
	Owner        string           `query:"owner" doc:"The source that asks. What another source owns is refused."`
	TakeOver     bool             `query:"takeOver" doc:"Delete it, whoever owns it."`
}

func (s *Server) delete(ctx context.Context, in *deleteInput) (*output[api.PutResult], error) {
	d := engine.Delete{
		Key: in.key(), Deletion: record.DeletionPolicy(in.Deletion), IfGeneration: in.IfGeneration.pointer(),
		Owner: in.Owner, TakeOver: in.TakeOver,
	}
	if in.OrderSource != "" {
		d.Order = record.Order{Source: in.OrderSource, Epoch: in.OrderEpoch, Number: in.OrderNumber}
		d.OrderPartial = in.OrderPartial
	}
	r, err := s.engine.Delete(ctx, d)
	noteGeneration(ctx, r.Generation)
	return answer(ctx, s, putResult(r), err)
}

type waitInput struct {
	KeyInput
	call
	Generation uint64 `query:"generation" doc:"0: the newest."`
	Timeout    string `query:"timeout" default:"30s" doc:"How long to wait, as 30s or 2m; at most 10m."`
}

func (s *Server) wait(ctx context.Context, in *waitInput) (*output[api.WaitResult], error) {
	timeout, err := parseTimeout(in.Timeout)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	limited, whole, done := s.waiting(ctx, &in.call, timeout)
	defer done()
	r, err := s.engine.Wait(limited, in.key(), in.Generation)
	if errors.Is(err, context.DeadlineExceeded) && whole.Err() == nil {
		return s.timedOut(ctx, in.key())
	}
	return answer(whole, s, api.WaitResult{
		Done: r.Done, Gone: r.Gone, Phase: r.Phase, Reason: r.Reason, Message: r.Message, Generation: r.Generation,
	}, err)
}

// parseTimeout reads the query parameter timeout.
func parseTimeout(text string) (time.Duration, error) {
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout < 0 {
		return 0, api.NewProblem(http.StatusUnprocessableEntity, api.CodeInvalid, fmt.Sprintf("query parameter timeout: %.40q is no duration", text), "write it as 30s or 2m")
	}
	return timeout, nil
}

// longest is how long a request may wait; proxies cut longer ones anyway.
const longest = 10 * time.Minute

// waiting returns a context that ends after patience, or when the server stops, and
// whole, which ends for the latter reason alone. The answer may take as long.
func (s *Server) waiting(ctx context.Context, in *call, patience time.Duration) (limited, whole context.Context, done func()) {
	patience = min(patience, longest)
	_ = http.NewResponseController(in.w).SetWriteDeadline(time.Now().Add(patience + s.o.IOTimeout))
	whole, release := s.untilStop(ctx)
	limited, cancel := context.WithTimeout(whole, patience)
	return limited, whole, func() { cancel(); release() }
}

// timedOut says where the resource is that is still waited for.
func (s *Server) timedOut(ctx context.Context, key record.Key) (*output[api.WaitResult], error) {
	out := api.WaitResult{TimedOut: true}
	if r, err := s.engine.Get(ctx, key); err == nil {
		st := &r.Status
		out.Phase, out.Reason, out.Message, out.Generation = st.Phase, st.Reason, st.Message, r.Desired.Generation
	}
	return answer(ctx, s, out, nil)
}

func (s *Server) explain(ctx context.Context, in *KeyInput) (*output[api.Explanation], error) {
	r, err := s.engine.Get(ctx, in.key())
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := api.Explanation{Resource: s.resource(&r, true)}
	out.Resource.HeldBy = s.engine.HeldBy(r.Key)
	if sink := s.sink(in.Sink); sink != nil {
		out.Sink = s.sinkFor(access.From(ctx), sink)
	}
	out.Text = api.Explain(&out.Resource, &out.Sink, s.o.Now())
	return answer(ctx, s, out, nil)
}

// operatorRoutes are the orders that an operator may give for one resource.
func (s *Server) operatorRoutes(a huma.API) {
	for _, o := range []struct {
		verb, summary, description string
		do                         func(context.Context, record.Key) error
	}{
		{"retry", "Retry a resource", "Delivers it at once, with its attempts counted anew.", s.engine.Retry},
		{"suspend", "Suspend a resource", "Holds its calls; Puts go on being accepted.", s.engine.Suspend},
		{"resume", "Resume a resource", "Takes suspend back.", s.engine.Resume},
		{"accept", "Accept drift", "Takes what the target holds for acknowledged.", s.engine.Accept},
		{"force", "Force the desired state", "Applies it, whatever the conflict policy.", s.engine.ApplyForce},
		{"forget", "Forget a resource", "Removes it from the outbox and leaves the target as it is. An unconfirmed delete is given up.", s.engine.Forget},
	} {
		huma.Register(a, operation(a, o.verb+"-resource", http.MethodPost, resourcePath+"/"+o.verb, o.summary,
			o.description+" Durable when the answer comes.", 404, 409, 422),
			func(ctx context.Context, in *KeyInput) (*struct{}, error) {
				if err := o.do(ctx, in.key()); err != nil {
					return nil, s.problem(ctx, err)
				}
				return nil, nil
			})
	}
}
