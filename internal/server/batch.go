package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// Bounds of what one batch holds in memory.
const (
	groupLines    = 1000    // put at once
	groupBytes    = 4 << 20 // payload put at once
	batchPatience = 4       // times Options.IOTimeout: how long a client may pause between lines
	answersBytes  = 8 << 20 // answers that wait for a client that sends, but does not read yet
)

const batchPath = "/v1/batch"

func (s *Server) batchRoute(a huma.API) {
	op := operation(a, "put-batch", http.MethodPost, batchPath, "Put many resources",
		"One JSON object a line in, one JSON object a line out, in the same order: line n is answered while later ones are sent, and is durable when its answer comes. "+
			"A line that is refused spoils no other. An answer with line 0 ends the batch early and says why; lines without an answer may be sent again.")
	schema := a.OpenAPI().Components.Schemas
	op.Responses["200"] = &huma.Response{Description: "One line per line.", Content: map[string]*huma.MediaType{
		"application/x-ndjson": {Schema: huma.SchemaFromType(schema, reflect.TypeFor[api.BatchAnswer]())},
	}}
	huma.Register(a, op, func(context.Context, *struct{}) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			r, w := humago.Unwrap(ctx)
			s.lines(w, r, s.putGroups)
		}}, nil
	})
	documentBody[api.BatchLine](a, batchPath, http.MethodPost, "application/x-ndjson", "One such object a line.")
}

// lines answers a stream of lines with one of answers, while it comes.
func (s *Server) lines(w http.ResponseWriter, r *http.Request, answer func(context.Context, *lineReader, *answers) error) {
	ctx, cancel := s.untilStop(r.Context())
	defer cancel()
	rc := http.NewResponseController(w)
	_ = rc.EnableFullDuplex() // HTTP/1; HTTP/2 is so anyway
	// A Read that waits for more lines ends when the server stops or the client
	// takes no more answers.
	release := context.AfterFunc(ctx, func() { _ = rc.SetReadDeadline(time.Unix(1, 0)) })
	defer release()

	if r.ProtoMajor == 1 {
		// A batch may end before its body does, and what is left of that must
		// never be taken for the connection's next request.
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	_ = rc.Flush()
	_ = rc.SetWriteDeadline(time.Time{}) // it is for writes, and there may be none for long
	out := newAnswers()
	written := make(chan struct{})
	go func() {
		defer close(written)
		if s.writeAnswers(w, rc, out) != nil {
			cancel()
			out.fail()
		}
	}()
	in := &lineReader{
		from:    bufio.NewReaderSize(http.MaxBytesReader(nil, &patient{r.Body, ctx, rc, batchPatience * s.o.IOTimeout}, s.o.RequestMaxBytes), 256<<10),
		longest: s.putMaxBytes(),
	}
	if err := answer(ctx, in, out); err != nil {
		out.add(marshalLine(api.BatchAnswer{Error: s.batchProblem(ctx, err, in)}))
	}
	out.close()
	<-written
}

// writeAnswers writes what comes from out until it is closed.
func (s *Server) writeAnswers(w io.Writer, rc *http.ResponseController, out *answers) error {
	for {
		b := out.take()
		if b == nil {
			return nil
		}
		_ = rc.SetWriteDeadline(time.Now().Add(s.o.IOTimeout))
		if _, err := w.Write(b); err != nil {
			return err
		}
		if err := rc.Flush(); err != nil {
			return err
		}
		_ = rc.SetWriteDeadline(time.Time{})
	}
}

// putGroups reads, puts and answers groups of lines until there are no more.
func (s *Server) putGroups(ctx context.Context, in *lineReader, out *answers) error {
	for {
		group, err := s.readGroup(ctx, in)
		if len(group.answers) > 0 {
			s.putGroup(ctx, &group)
			out.add(group.marshal())
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

// group is lines that are put at once, in order.
type group struct {
	puts    []engine.Put
	answers []api.BatchAnswer // one a line
	asked   []int             // per put, its answer
}

// readGroup reads the lines that are there without waiting for more, at least
// one. With an error comes what was read before it.
func (s *Server) readGroup(ctx context.Context, in *lineReader) (group, error) {
	var g group
	size := 0
	for len(g.answers) < min(groupLines, s.o.BatchMax) && size < groupBytes {
		if len(g.answers) > 0 && !in.ready() {
			break
		}
		line, err := in.next()
		if err != nil {
			var p *api.Problem
			if !errors.As(err, &p) {
				return g, err
			}
			p.Line = in.line
			g.answers = append(g.answers, api.BatchAnswer{Line: in.line, Error: p})
			continue
		}
		if len(line) == 0 {
			continue
		}
		size += len(line)
		var b api.BatchLine
		if err := b.Decode(line); err != nil {
			g.answers = append(g.answers, api.BatchAnswer{Line: in.line, Error: inLine(err, in.line)})
			continue
		}
		key := record.Key{Sink: b.Sink, Name: b.Key}
		if d := access.AsDenial(may(ctx, access.Write, key)); d != nil {
			p := inLine(denied(d), in.line)
			g.answers = append(g.answers, api.BatchAnswer{Line: in.line, Error: p})
			s.auditItem(ctx, key, 0, p)
			continue
		}
		g.asked = append(g.asked, len(g.answers))
		g.answers = append(g.answers, api.BatchAnswer{Line: in.line})
		g.puts = append(g.puts, put(key, &b.PutRequest))
	}
	return g, nil
}

// inLine says where a problem of a line is in the whole body.
func inLine(err error, line int) *api.Problem {
	var p *api.Problem
	if !errors.As(err, &p) {
		return api.NewProblem(http.StatusBadRequest, api.CodeBadRequest, err.Error(), "")
	}
	if p.Line > 0 {
		p.Detail = fmt.Sprintf("line %d%s", line, p.Detail[len("line 1"):])
	}
	p.Line = line
	return p
}

// putGroup puts the group's lines and answers them. It waits for their commit
// even where the server stops: a line that is stored must not be refused.
func (s *Server) putGroup(ctx context.Context, g *group) {
	if len(g.puts) == 0 {
		return
	}
	items, err := s.engine.PutBatch(context.WithoutCancel(ctx), g.puts)
	for i, at := range g.asked {
		a := &g.answers[at]
		itemErr := err
		if err == nil {
			itemErr = items[i].Err
		}
		if itemErr != nil {
			p := *s.problem(ctx, itemErr) // a copy: lines may share one error
			p.Line = a.Line
			a.Error = &p
			s.auditItem(ctx, g.puts[i].Key, 0, &p)
			continue
		}
		r := putResult(items[i].PutResult)
		a.PutResult = &r
		s.auditItem(ctx, g.puts[i].Key, r.Generation, nil)
	}
}

func (g *group) marshal() []byte {
	var b bytes.Buffer
	for i := range g.answers {
		b.Write(marshalLine(g.answers[i]))
	}
	return b.Bytes()
}

func marshalLine(v any) []byte {
	var b bytes.Buffer
	_ = marshal(&b, v) // made of strings and numbers
	return b.Bytes()
}

// batchProblem says why a batch ended early.
func (s *Server) batchProblem(ctx context.Context, err error, in *lineReader) *api.Problem {
	const again = "lines without an answer may be sent again"
	line := in.line
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge) && in.size > in.longest:
		return api.NewProblem(http.StatusRequestEntityTooLarge, api.CodeTooLarge,
			fmt.Sprintf("line %d has more than the %d bytes allowed, and the batch more than %d", line+1, in.longest, tooLarge.Limit),
			"leave that line out; limits.payload_max_bytes sets how large a payload may be, server.max_request_bytes the batch")
	case errors.As(err, &tooLarge):
		return api.NewProblem(http.StatusRequestEntityTooLarge, api.CodeTooLarge,
			fmt.Sprintf("the batch has more than %d bytes, and was cut after line %d", tooLarge.Limit, line), "send the rest in another one; server.max_request_bytes sets the limit")
	case errors.Is(err, os.ErrDeadlineExceeded) && s.stopping.Err() == nil:
		return api.NewProblem(http.StatusRequestTimeout, api.CodeBadRequest, fmt.Sprintf("no more came for %s after line %d", batchPatience*s.o.IOTimeout, line), again)
	case ctx.Err() != nil:
		p := s.problem(ctx, context.Cause(ctx))
		p.Hint = again
		return p
	}
	return api.NewProblem(http.StatusBadRequest, api.CodeBadRequest, fmt.Sprintf("the batch can't be read after line %d: %v", line, err), again)
}

// lineReader reads lines of a bounded length.
type lineReader struct {
	from    *bufio.Reader
	longest int // bytes
	line    int // number of the last one
	size    int // bytes of the one that is being read, or was read last
	partial []byte
}

// ready reports whether next would return without waiting.
func (l *lineReader) ready() bool {
	there, _ := l.from.Peek(l.from.Buffered())
	return bytes.IndexByte(there, '\n') >= 0
}

// next returns the next line without white space around it, valid until the
// call after. A line that is too long is skipped and a *api.Problem.
func (l *lineReader) next() ([]byte, error) {
	l.partial = l.partial[:0]
	l.size = 0
	for {
		piece, err := l.from.ReadSlice('\n')
		l.size += len(piece)
		if l.size <= l.longest {
			l.partial = append(l.partial, piece...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (l.size == 0 || !errors.Is(err, io.EOF)):
			return nil, err
		}
		l.line++ // the last one may lack its end
		if l.size > l.longest {
			return nil, api.NewProblem(http.StatusRequestEntityTooLarge, api.CodeTooLarge,
				fmt.Sprintf("line %d has %d bytes, more than the %d allowed", l.line, l.size, l.longest), "limits.payload_max_bytes sets how large a payload may be")
		}
		return bytes.TrimSpace(bytes.Clone(l.partial)), nil
	}
}

// patient reads from a client that may take its time between any two reads, but
// not more than that.
type patient struct {
	io.ReadCloser
	ctx  context.Context
	rc   *http.ResponseController
	time time.Duration
}

func (p *patient) Read(b []byte) (int, error) {
	_ = p.rc.SetReadDeadline(time.Now().Add(p.time))
	if p.ctx.Err() != nil { // the deadline may just have been moved back
		return 0, context.Cause(p.ctx)
	}
	return p.ReadCloser.Read(b)
}
