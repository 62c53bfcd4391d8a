package server

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/source"
)

// Sources is what the API needs of *source.Manager.
type Sources interface {
	List(context.Context) ([]source.Status, error)
	Figures() []source.Status
	Status(ctx context.Context, name string, problems int) (source.Status, error)
	Rescan(name string) error
	Held(name string, after *record.Key, limit int) (source.Held, error)
	Confirm(ctx context.Context, name, digest string) (deleted int, err error)
	HandOver(ctx context.Context, from, to, sink, prefix string) (handed int, err error)
}

// noSources is a Manager without sources.
type noSources struct{}

func (noSources) List(context.Context) ([]source.Status, error) { return nil, nil }
func (noSources) Figures() []source.Status                      { return nil }
func (noSources) Rescan(string) error                           { return source.ErrUnknown }
func (noSources) Status(context.Context, string, int) (source.Status, error) {
	return source.Status{}, source.ErrUnknown
}
func (noSources) Held(string, *record.Key, int) (source.Held, error) {
	return source.Held{}, source.ErrUnknown
}
func (noSources) Confirm(context.Context, string, string) (int, error) {
	return 0, source.ErrUnknown
}
func (noSources) HandOver(context.Context, string, string, string, string) (int, error) {
	return 0, source.ErrUnknown
}

// problemsShown bounds how many problems of a source are told.
const problemsShown = 100

func (s *Server) sourceRoutes(a huma.API) {
	huma.Register(a, operation(a, "list-sources", http.MethodGet, "/v1/sources", "List sources",
		"Every source by name, pawls that have sent, and those that left the configuration and own resources still."), s.listSources)
	huma.Register(a, operation(a, "get-source", http.MethodGet, "/v1/sources/{source}", "Get a source",
		"How one source does, with what it has that could not be read or was refused.", 404), s.getSource)
	huma.Register(a, operation(a, "rescan-source", http.MethodPost, "/v1/sources/{source}/rescan", "Rescan a source",
		"Asks the source for everything that it has, as soon as it can. The answer does not wait for it.", 404, 409), s.rescanSource)
	huma.Register(a, operation(a, "list-held", http.MethodGet, "/v1/sources/{source}/held", "List held deletions",
		"Pages of the deletions that the source's fuse holds, in key order.", 404, 422), s.heldOfSource)
	confirm := operation(a, "confirm-source", http.MethodPost, "/v1/sources/{source}/confirm", "Confirm held deletions",
		"Deletes exactly what the list of that digest has. Where it is another list by now, nothing is deleted. Durable when the answer comes.", 400, 404, 409)
	huma.Register(a, confirm, s.confirmSource)
	documentBody[api.SourceConfirmation](a, confirm.Path, confirm.Method, "application/json", "Which list is confirmed.")
	handover := operation(a, "hand-over-source", http.MethodPost, "/v1/sources/{source}/handover", "Hand resources over",
		"Makes resources another source's own, or nobody's. Content and generation stay, and no call is made. Durable when the answer comes.", 400, 404, 422)
	huma.Register(a, handover, s.handOverSource)
	documentBody[api.SourceHandover](a, handover.Path, handover.Method, "application/json", "Who takes what over.")
}

// SourceInput names one source.
type SourceInput struct {
	Source string `path:"source" doc:"The source's name."`
}

func (s *Server) listSources(ctx context.Context, _ *struct{}) (*output[api.SourceList], error) {
	list, err := s.sources.List(ctx)
	return answer(ctx, s, api.SourceList{Items: sourcesOf(list)}, err)
}

func (s *Server) getSource(ctx context.Context, in *SourceInput) (*output[api.Source], error) {
	st, err := s.sources.Status(ctx, in.Source, problemsShown)
	if err != nil {
		return nil, s.sourceProblem(ctx, in.Source, err)
	}
	return answer(ctx, s, sourceOf(&st), nil)
}

func (s *Server) rescanSource(ctx context.Context, in *SourceInput) (*struct{}, error) {
	if err := s.sources.Rescan(in.Source); err != nil {
		return nil, s.sourceProblem(ctx, in.Source, err)
	}
	return nil, nil
}

type heldInput struct {
	SourceInput
	Limit int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Most items of a page."`
	Page  string `query:"page" doc:"The next of the page before."`
}

func (s *Server) heldOfSource(ctx context.Context, in *heldInput) (*output[api.SourceHeld], error) {
	after, err := parseHeldPage(in.Page)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	h, err := s.sources.Held(in.Source, after, in.Limit)
	if err != nil {
		return nil, s.sourceProblem(ctx, in.Source, err)
	}
	return answer(ctx, s, heldOf(&h), nil)
}

// A page's token is the last key before it, unreadable so that nobody takes it apart.
func heldPage(k record.Key) string {
	return base64.RawURLEncoding.EncodeToString([]byte(k.Sink + "\x00" + k.Name))
}

func parseHeldPage(page string) (*record.Key, error) {
	if page == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(page)
	sink, name, ok := strings.Cut(string(raw), "\x00")
	if err != nil || !ok {
		return nil, api.NewProblem(http.StatusUnprocessableEntity, api.CodeInvalid, "query parameter page: it is not the next of a page", "begin with the first page, without it")
	}
	return &record.Key{Sink: sink, Name: name}, nil
}

type sourceBodyInput struct {
	SourceInput
	call
}

func (s *Server) confirmSource(ctx context.Context, in *sourceBodyInput) (*output[api.SourceConfirmed], error) {
	var r api.SourceConfirmation
	if err := s.decodeBody(&in.call, &r); err != nil {
		return nil, s.problem(ctx, err)
	}
	deleted, err := s.sources.Confirm(ctx, in.Source, r.Digest)
	if err != nil {
		return nil, s.sourceProblem(ctx, in.Source, err)
	}
	return answer(ctx, s, api.SourceConfirmed{Deleted: deleted}, nil)
}

func (s *Server) handOverSource(ctx context.Context, in *sourceBodyInput) (*output[api.SourceHandedOver], error) {
	var r api.SourceHandover
	if err := s.decodeBody(&in.call, &r); err != nil {
		return nil, s.problem(ctx, err)
	}
	n, err := s.sources.HandOver(ctx, in.Source, r.To, r.Sink, r.Prefix)
	if err != nil {
		name := in.Source
		if st, missing := s.sources.Status(ctx, name, 0); missing == nil && (st.Configured || st.Resources > 0) {
			name = r.To // it is the other one that is unknown
		}
		return nil, s.sourceProblem(ctx, name, err)
	}
	return answer(ctx, s, api.SourceHandedOver{Resources: n}, nil)
}

// decodeBody reads a body into what knows how to.
func (s *Server) decodeBody(in *call, into interface{ Decode([]byte) error }) error {
	body, err := s.readBody(in)
	if err != nil {
		return err
	}
	return into.Decode(body)
}

// sourceProblem says what is wrong with a request about a source.
func (s *Server) sourceProblem(ctx context.Context, name string, err error) *api.Problem {
	switch {
	case errors.Is(err, source.ErrUnknown):
		var names []string
		for _, st := range s.sources.Figures() {
			names = append(names, st.Name)
		}
		hint := "the configuration has none below sources"
		if len(names) > 0 {
			hint = api.DidYouMean(name, names)
		}
		return api.NewProblem(http.StatusNotFound, api.CodeUnknownSource, "there is no source "+name, hint)
	case errors.Is(err, source.ErrDeclares):
		return api.NewProblem(http.StatusNotFound, api.CodeUnknownSource, err.Error(), s.senderHint(name))
	case errors.Is(err, source.ErrNotConfigured):
		return api.NewProblem(http.StatusNotFound, api.CodeUnknownSource, "source "+name+" is not in the configuration any more: what it owns stays as it is",
			"put it back, or hand over what it owns: pawl source handover "+name)
	case errors.Is(err, source.ErrSame):
		return api.NewProblem(http.StatusUnprocessableEntity, api.CodeInvalid, err.Error(), "name another source that takes over")
	case errors.Is(err, source.ErrChanged):
		return api.NewProblem(http.StatusConflict, api.CodeHeldChanged, err.Error(), "look at the list again, and confirm that one")
	case errors.Is(err, source.ErrNothingHeld), errors.Is(err, source.ErrNotRunning):
		return api.NewProblem(http.StatusConflict, api.CodeNothingToDo, err.Error(), "")
	}
	return s.problem(ctx, err)
}

// senderHint names the senders that are known of a pawl source.
func (s *Server) senderHint(group string) string {
	var known []string
	for _, st := range s.sources.Figures() {
		if st.Group == group {
			known = append(known, st.Name)
		}
	}
	if len(known) == 0 {
		return "none has sent yet"
	}
	const most = 5
	if len(known) > most {
		known = append(known[:most:most], "…")
	}
	return "name one of them: " + strings.Join(known, ", ")
}
