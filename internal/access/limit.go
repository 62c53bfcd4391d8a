package access

import "context"

// Limit is what a caller may not exceed, as it is counted.
type Limit string

// The limits.
const (
	LimitRequests Limit = "requests" // requests a second
	LimitWatches  Limit = "watches"  // watches and waits at once
	LimitBody     Limit = "body"     // bytes of bodies under way
)

// AllLimits are all limits.
func AllLimits() []Limit { return []Limit{LimitRequests, LimitWatches, LimitBody} }

// Kinds of callers that others ask for by name.
const (
	KindLocal    = "local"    // everybody, where nobody is asked who they are
	KindStranger = "stranger" // who was not let in
)

// AllKinds are all kinds of callers.
func AllKinds() []string {
	return []string{kindToken, kindCertificate, kindKubernetes, KindPeer, KindLocal, KindStranger}
}

// PeerUID returns as which user the process at the other end of a unix socket ran when it
// connected, by the context of its request; false: it came otherwise, or the system does
// not say.
func PeerUID(ctx context.Context) (uid uint32, ok bool) {
	s, ok := ctx.Value(peerKey{}).(atSocket)
	return s.peer.UID, ok && s.err == nil
}
