package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

func (s *Server) sinkRoutes(a huma.API) {
	huma.Register(a, operation(a, "list-sinks", http.MethodGet, "/v1/sinks", "List sinks",
		"The state of every sink, by name, those that left the configuration included."),
		func(ctx context.Context, _ *struct{}) (*output[api.SinkList], error) {
			return answer(ctx, s, api.SinkList{Items: s.sinks(access.From(ctx))}, nil)
		})
	for _, o := range []struct {
		verb, summary, description string
		do                         func(context.Context, string) error
	}{
		{"suspend", "Suspend a sink", "Holds all its calls, deletes included; Puts go on being accepted.", s.engine.SuspendSink},
		{"resume", "Resume a sink", "Takes suspend back.", s.engine.ResumeSink},
	} {
		huma.Register(a, operation(a, o.verb+"-sink", http.MethodPost, "/v1/sinks/{sink}/"+o.verb, o.summary,
			o.description+" Durable when the answer comes.", 404),
			func(ctx context.Context, in *sinkInput) (*struct{}, error) {
				if err := o.do(ctx, in.Sink); err != nil {
					return nil, s.problem(ctx, err)
				}
				return nil, nil
			})
	}
}

type sinkInput struct {
	Sink string `path:"sink" doc:"The sink's name."`
}

// sinks are those of which the caller may see something.
func (s *Server) sinks(id *access.Identity) []api.Sink {
	out := []api.Sink{}
	for _, sink := range s.engine.Sinks() {
		if id.AllowsSome(access.Read, sink.Name) {
			out = append(out, s.sinkFor(id, &sink))
		}
	}
	slices.SortFunc(out, func(a, b api.Sink) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (s *Server) daemonRoutes(a huma.API) {
	huma.Register(a, operation(a, "get-status", http.MethodGet, "/v1/status", "Status of the daemon",
		"Figures of the whole daemon, and what needs somebody's attention."),
		func(ctx context.Context, _ *struct{}) (*output[api.DaemonStatus], error) {
			return answer(ctx, s, s.daemonStatus(access.From(ctx)), nil)
		})
	huma.Register(a, operation(a, "get-version", http.MethodGet, "/version", "Version", "What is running."),
		func(ctx context.Context, _ *struct{}) (*output[api.Version], error) {
			return answer(ctx, s, s.o.Version, nil)
		})
	huma.Register(a, operation(a, "livez", http.MethodGet, "/livez", "Liveness",
		"Answers as long as the process does; needs no token."),
		func(ctx context.Context, _ *struct{}) (*output[api.Health], error) {
			return answer(ctx, s, api.Health{Status: "ok"}, nil)
		})
	huma.Register(a, operation(a, "readyz", http.MethodGet, "/readyz", "Readiness",
		"503 while Puts are not taken: the daemon is shutting down, or the disk is nearly full. Needs no token. Targets that are down don't count: Puts wait for them.",
		503), s.ready)
}

func (s *Server) ready(ctx context.Context, _ *struct{}) (*output[api.Health], error) {
	var why error
	switch {
	case s.stopping.Err() != nil:
		why = errStopping
	case s.engine.Stats().Store.RefusingPuts:
		why = engine.ErrNoSpace
	default:
		return answer(ctx, s, api.Health{Status: "ok"}, nil)
	}
	return nil, api.NewProblem(http.StatusServiceUnavailable, api.CodeNotReady, "not ready: "+why.Error(), "")
}

// daemonStatus is what a caller may see of the daemon. What is said of all resources, of
// sagas, sources, certificate and configuration is for those alone who may read everything.
func (s *Server) daemonStatus(id *access.Identity) api.DaemonStatus {
	st := s.engine.Stats()
	out := api.DaemonStatus{
		Version: s.o.Version.Version, StartedAt: s.started,
		Counts: map[record.Phase]int{}, Sources: []api.Source{},
		Store: api.Store{
			Directory: st.Info.Directory, Epoch: st.Info.Epoch, Revision: st.Info.Revision, Lossy: st.Info.Lossy,
			Bytes: st.Store.DiskBytes, FreeBytes: st.Store.FreeBytes, ReserveBytes: st.Store.ReserveBytes,
			GarbageBytes: st.Store.GarbageBytes, RefusingPuts: st.Store.RefusingPuts, Waiting: st.Store.Waiting,
		},
		Sinks: s.sinks(id),
	}
	for i := range out.Sinks {
		for phase, n := range out.Sinks[i].Counts {
			out.Counts[phase] += n
			out.Resources += n
		}
	}
	if id.AllowsAll(access.Read) {
		s.addWhole(&out, &st)
	}
	out.Headlines = api.Headlines(&out, s.o.Now())
	return out
}

// addWhole adds what is told of the daemon as a whole.
func (s *Server) addWhole(out *api.DaemonStatus, st *engine.Stats) {
	out.Resources, out.Watchers, out.Waiters, out.Sagas = st.Resources, st.Watchers, st.Waiters, s.sagaCounts()
	out.Sources = sourcesOf(s.sources.Figures())
	if s.o.Certificates != nil {
		out.Certificate = certificateStatus(s.o.Certificates.Status())
	}
	for _, a := range s.o.Authenticators {
		if tokens, ok := a.(*access.Tokens); ok {
			if err := tokens.Trouble(); err != nil {
				out.TokenProblem = err.Error()
			}
		}
	}
	if s.o.Reloader != nil {
		config := s.o.Reloader.Status()
		out.Config = &config
	}
}
