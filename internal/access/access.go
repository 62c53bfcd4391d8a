// Package access says who a caller of the API is, and what they may do.
//
// An Authenticator turns what a request shows (a bearer token, a client
// certificate, the peer of a unix socket) into an Identity. The server puts it into
// the request's context and asks its Allows before anything is looked up, so that a
// denial can't tell whether something exists.
package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Authenticator knows one way in which callers show who they are. Its method may be
// called from many goroutines, and again for a request that lasts (a watch): what
// was revoked since must be refused then. It answers from memory, or within the
// time of a request.
type Authenticator interface {
	// Authenticate returns who sent r; nil and no error where r shows nothing of the
	// kind that it knows, so that the next one is asked.
	//
	// # Errors
	//
	// A *Refusal where what r shows is no good; another error where that can't be
	// found out at the moment.
	Authenticate(r *http.Request) (*Identity, error)
}

// Refusal is why a caller is not let in (HTTP 401). It holds no secret.
type Refusal struct {
	// Detail says what is wrong, for the caller.
	Detail string
	// Hint says what to do about it.
	Hint string
}

// Error is detail and hint.
func (r *Refusal) Error() string {
	if r.Hint == "" {
		return r.Detail
	}
	return r.Detail + "; " + r.Hint
}

// Denial is what a caller may not do (HTTP 403): which scope is missing, and where.
// It says nothing of what is there.
type Denial struct {
	Identity *Identity
	Scope    Scope // that is missing
	Where    Where
	// Sender is the pawl that they may not send as; "": it is a scope that is missing.
	Sender string
}

// Error says what is missing.
func (d *Denial) Error() string {
	if d.Sender != "" {
		return fmt.Sprintf("%s may not send as the pawl %q", d.Identity, d.Sender)
	}
	return fmt.Sprintf("%s lacks the scope %s for %s", d.Identity, d.Scope, d.Where)
}

// AsDenial returns the Denial that err is or wraps, else nil.
func AsDenial(err error) *Denial {
	d, _ := errors.AsType[*Denial](err)
	return d
}

type contextKey struct{}

// With returns a context that carries who asks.
func With(ctx context.Context, id *Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, id)
}

// From returns who asks. A context without anybody is one of nobody, who may do
// nothing: a route that forgot to find out stays closed.
func From(ctx context.Context) *Identity {
	if id, _ := ctx.Value(contextKey{}).(*Identity); id != nil {
		return id
	}
	return nobody
}

var nobody = &Identity{Name: "nobody", Kind: "unknown"}
