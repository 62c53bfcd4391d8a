package access

import (
	"fmt"
	"slices"
	"strings"
)

// Scope is what a Grant allows. Each includes those before it.
type Scope string

// The scopes, from the least to the most.
const (
	// Read sees resources, payloads without their sensitive values, and sagas.
	Read Scope = "read"
	// Write also changes what is desired, and gives the orders that Puts could
	// replace: retry, suspend, resume, accept, force.
	Write Scope = "write"
	// Admin also forgets resources, suspends sinks, resolves sagas and reveals
	// sensitive values; over everything, it also has sources, store and daemon.
	Admin Scope = "admin"
)

// Scopes are all of them, from the least to the most.
var Scopes = []Scope{Read, Write, Admin}

// ParseScope reads a scope's name.
func ParseScope(name string) (Scope, error) {
	if s := Scope(name); slices.Contains(Scopes, s) {
		return s, nil
	}
	return "", fmt.Errorf("%.40q is no scope; it is read, write or admin", name)
}

// includes reports whether s allows what asked does. The empty scope, which is
// none, includes nothing and is included in nothing.
func (s Scope) includes(asked Scope) bool {
	return asked != "" && slices.Index(Scopes, s) >= slices.Index(Scopes, asked) && slices.Contains(Scopes, asked)
}

// Grant is one scope somewhere.
type Grant struct {
	Scope Scope
	// Sinks are those that it holds for; none: all of them.
	Sinks []string
	// Prefix is what keys start with that it holds for; "": all of them.
	Prefix string
}

func (g *Grant) hasSink(sink string) bool { return len(g.Sinks) == 0 || slices.Contains(g.Sinks, sink) }

// AnySender among an Identity's Senders stands for every one.
const AnySender = "*"

// Identity is a caller.
type Identity struct {
	// Name is unique among those of its kind; logs and denials name it.
	Name string
	// Kind is how they were told: "token", "certificate", "peer", "local", …
	Kind string
	// Grants are what they may do. They add up.
	Grants []Grant
	// Senders are the names under which they may send as another pawl
	// (POST /v1/relay…); AnySender: every one.
	Senders []string
}

// Unrestricted returns an identity that may do everything: that of whoever asks
// where nobody is asked who they are.
func Unrestricted(name, kind string) *Identity {
	return &Identity{Name: name, Kind: kind, Grants: []Grant{{Scope: Admin}}, Senders: []string{AnySender}}
}

// String names the identity for people, as: token "ci".
func (id *Identity) String() string { return fmt.Sprintf("%s %q", id.Kind, id.Name) }

// Allows reports whether they may do so to that resource, whether it exists or not.
func (id *Identity) Allows(scope Scope, sink, key string) bool {
	return id.any(func(g *Grant) bool {
		return g.Scope.includes(scope) && g.hasSink(sink) && strings.HasPrefix(key, g.Prefix)
	})
}

// AllowsBelow reports whether they may do so to every resource of that sink whose
// key starts with prefix; sink "": of every sink.
func (id *Identity) AllowsBelow(scope Scope, sink, prefix string) bool {
	return id.any(func(g *Grant) bool {
		everySink := len(g.Sinks) == 0
		return g.Scope.includes(scope) && (everySink || sink != "" && g.hasSink(sink)) && strings.HasPrefix(prefix, g.Prefix)
	})
}

// AllowsAll reports whether they may do so everywhere.
func (id *Identity) AllowsAll(scope Scope) bool { return id.AllowsBelow(scope, "", "") }

// AllowsSome reports whether they may do so to anything of that sink; sink "":
// anywhere.
func (id *Identity) AllowsSome(scope Scope, sink string) bool {
	return id.any(func(g *Grant) bool { return g.Scope.includes(scope) && (sink == "" || g.hasSink(sink)) })
}

// MaySend reports whether they may send as the pawl of that name.
func (id *Identity) MaySend(sender string) bool {
	return slices.Contains(id.Senders, AnySender) || slices.Contains(id.Senders, sender)
}

// CheckSender returns a *Denial where they may not send as the pawl of that name; nil:
// they may.
func (id *Identity) CheckSender(sender string) error {
	if id.MaySend(sender) {
		return nil
	}
	return &Denial{Identity: id, Scope: Write, Sender: sender}
}

func (id *Identity) any(allows func(*Grant) bool) bool {
	for i := range id.Grants {
		if allows(&id.Grants[i]) {
			return true
		}
	}
	return false
}

// Where is the place that a scope is asked for.
type Where struct {
	Sink string
	Key  string // of a resource; with OfSink false
	// OfSink: all of Sink, or all sinks where that is "".
	OfSink bool
}

// Resource is the place of one resource.
func Resource(sink, key string) Where { return Where{Sink: sink, Key: key} }

// WholeSink is the place of all resources of a sink.
func WholeSink(sink string) Where { return Where{Sink: sink, OfSink: true} }

// Everything is the place of all that there is.
func Everything() Where { return Where{OfSink: true} }

// String says it in words.
func (w Where) String() string {
	switch {
	case !w.OfSink:
		return fmt.Sprintf("sink %q, key %q", w.Sink, w.Key)
	case w.Sink != "":
		return fmt.Sprintf("the whole of sink %q", w.Sink)
	}
	return "everything"
}

// Check returns a *Denial where they may not do so there; nil: they may.
func (id *Identity) Check(scope Scope, w Where) error {
	allowed := w.OfSink && id.AllowsBelow(scope, w.Sink, "") || !w.OfSink && id.Allows(scope, w.Sink, w.Key)
	if allowed {
		return nil
	}
	return &Denial{Identity: id, Scope: scope, Where: w}
}
