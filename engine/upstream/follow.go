package upstream

import "context"

// Followed is a request that somebody follows. The zero Followed is one that nobody does.
type Followed struct {
	// Header is what the request bears besides, whatever the plugin sent of these names.
	Header []Field
	// Done is called once, when the request has its answer, or a failure why there is none.
	Done func(status int, f *Failure)
}

// follow begins to follow a request that was admitted.
func (u *Upstream) follow(ctx context.Context, c *call) Followed {
	if u.follows == nil {
		return Followed{}
	}
	f := u.follows(ctx, c.method)
	for _, h := range f.Header {
		c.header[canonical(h.Name)] = []string{h.Value}
	}
	return f
}

// ended tells how a request ended; it returns what it is given.
func (f *Followed) ended(r *Response, why *Failure) (*Response, *Failure) {
	if f.Done == nil {
		return r, why
	}
	status := 0
	if r != nil {
		status = r.Status
	}
	f.Done(status, why)
	return r, why
}
