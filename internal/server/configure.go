package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/sagatemplate"
)

// Reloader takes over the configuration while the daemon runs.
type Reloader interface {
	// Reload reads it again; of a dry run nothing changes. The error is of ctx.
	Reload(ctx context.Context, dryRun bool) (api.Reload, error)
	Status() api.ConfigStatus
}

// rules are what of the configuration the API goes by, and what may change while it
// answers.
type rules struct {
	masks     map[string]api.Mask // by sink; nil: nothing is hidden
	templates *sagatemplate.Set
}

// Configure puts templates of sagas, and JSON pointers of payload values that are hidden,
// by sink, in the place of those before. Of a sink that is not among them everything is
// hidden, since what was sensitive there left the configuration with it; nil: nothing is
// hidden anywhere. Requests under way end by those that they began
// with. An error says which is no JSON pointer: nothing has changed then.
func (s *Server) Configure(templates *sagatemplate.Set, sensitive map[string][]string) error {
	next := &rules{templates: templates}
	if sensitive != nil {
		next.masks = make(map[string]api.Mask, len(sensitive))
	}
	for sink, pointers := range sensitive {
		mask, err := api.NewMask(pointers)
		if err != nil {
			return fmt.Errorf("sink %s: %w", sink, err)
		}
		next.masks[sink] = mask
	}
	s.rules.Store(next)
	return nil
}

// mask hides what is sensitive of a sink's payloads.
func (s *Server) mask(sink string) api.Mask {
	masks := s.rules.Load().masks
	if m, known := masks[sink]; known || masks == nil {
		return m
	}
	return api.MaskWhole()
}

func (s *Server) reloadRoutes(a huma.API) {
	huma.Register(a, operation(a, "reload", http.MethodPost, "/v1/reload", "Read the configuration again",
		"Takes over what changed in the configuration file, as SIGHUP does, and answers when that is in force. A configuration that is wrong is refused whole, which the answer says: see result. Keys that need a restart are left as they are, and named. With dryRun nothing changes: what the file says is opened and checked, and closed again.", 404),
		func(ctx context.Context, in *reloadInput) (*output[api.Reload], error) {
			if s.o.Reloader == nil {
				return nil, api.NewProblem(http.StatusNotFound, api.CodeNotFound, "the configuration of this daemon can't be read again", "restart it")
			}
			_ = http.NewResponseController(in.w).SetWriteDeadline(time.Time{}) // compiling a plugin takes its time
			ctx, cancel := s.untilStop(ctx)
			defer cancel()
			out, err := s.o.Reloader.Reload(ctx, in.DryRun)
			return answer(ctx, s, out, err)
		})
}

type reloadInput struct {
	call
	DryRun bool `query:"dryRun" doc:"Say what a reload would do, and do nothing."`
}
