package server

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// lasting are the routes whose requests may last longer than what their caller shows
// is good for.
var lasting = map[string]bool{
	"GET /v1/watch": true, "GET /v1/status/watch": true, "POST /v1/batch": true, "POST /v1/plan": true,
	"GET " + resourcePath + "/wait": true, "GET /v1/sagas/{id}/wait": true, "GET /v1/store/backup": true, "GET /v1/store/export": true,
	"GET /v1/debug/bundle": true,
}

// asGranted returns a context that ends with ctx, or when the caller of r is no longer
// let in with the same grants: the cause is then a *api.Problem, and they come back
// with those that they have now.
func (s *Server) asGranted(ctx context.Context, r *http.Request, id *access.Identity) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	begun := make(chan struct{})
	var timer *time.Timer
	timer = time.AfterFunc(s.o.AskAgain, func() {
		<-begun
		now, p := s.identify(r)
		switch {
		case ctx.Err() != nil:
		case p != nil && p.Status == http.StatusServiceUnavailable: // it can't be found out: that is no reason to end it
			timer.Reset(s.o.AskAgain)
		case p != nil:
			cancel(p)
		case !reflect.DeepEqual(now, id):
			cancel(api.NewProblem(http.StatusUnauthorized, api.CodeUnauthorized, "what you may do has changed meanwhile", "send the request again"))
		default:
			timer.Reset(s.o.AskAgain)
		}
	})
	close(begun)
	return ctx, func() { timer.Stop(); cancel(nil) }
}
