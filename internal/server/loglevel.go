package server

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlsync/pawl/internal/api"
)

func (s *Server) logRoutes(a huma.API) {
	huma.Register(a, operation(a, "get-log-level", http.MethodGet, "/v1/log-level", "Level of the log",
		"The level in force."),
		func(ctx context.Context, _ *struct{}) (*output[api.LogLevel], error) {
			return answer(ctx, s, s.logLevel(), nil)
		})
	huma.Register(a, operation(a, "set-log-level", http.MethodPut, "/v1/log-level", "Change the level of the log",
		"At once, until it is changed again, log.level of the configuration changes, or the daemon restarts.", 422),
		func(ctx context.Context, in *struct{ Body api.LogLevel }) (*output[api.LogLevel], error) {
			err := s.setLogLevel(in.Body)
			return answer(ctx, s, s.logLevel(), err)
		})
}

func (s *Server) logLevel() api.LogLevel {
	return api.LogLevel{Level: strings.ToLower(s.o.LogLevel.Level().String())}
}

func (s *Server) setLogLevel(to api.LogLevel) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(to.Level)); err != nil {
		return api.NewProblem(http.StatusUnprocessableEntity, api.CodeInvalid, "level: "+err.Error(), "it is debug, info, warn or error")
	}
	before := s.logLevel()
	s.o.LogLevel.Set(level)
	s.log.Warn("the level of the log was changed", "from", before.Level, "to", to.Level)
	return nil
}
