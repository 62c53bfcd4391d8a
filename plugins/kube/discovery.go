package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// renewAfter is how old what is known of a group must be to be asked for again
// because a kind is missing in it: thousands of resources may wait for one.
const renewAfter = 2 * time.Second

// kindWait is when resources of a kind that the server does not have try again.
const kindWait = 5 * time.Second

// resource is what the API calls the objects of a kind.
type resource struct {
	plural     string
	namespaced bool
}

// groupVersion is what the server has in one version of a group.
type groupVersion struct {
	kinds map[string]resource // empty: the server does not have the group
	read  time.Time
}

// discovery knows the API's kinds, group by group, as they are asked for.
type discovery struct {
	known   map[string]*groupVersion // by apiVersion
	reading map[string]*reading
	now     func() time.Time
}

// reading is a look at a group that is under way, for all who wait for it.
type reading struct {
	done chan struct{}
	err  error
}

func newDiscovery() *discovery {
	return &discovery{known: map[string]*groupVersion{}, reading: map[string]*reading{}, now: time.Now}
}

// find returns what the server calls objects of id's kind.
func (a *adapter) find(ctx context.Context, id *identity) (resource, error) {
	d := a.discovery
	for {
		gv := d.known[id.apiVersion()]
		if gv != nil {
			if r, ok := gv.kinds[id.kind]; ok {
				return r, nil
			}
			if d.now().Sub(gv.read) < renewAfter {
				return resource{}, missingKind(id)
			}
		}
		if err := a.renew(ctx, id); err != nil {
			return resource{}, err
		}
	}
}

// errMissing tells a missing kind from other reasons to try again.
type errMissing struct{ error }

func (e errMissing) Unwrap() error { return e.error }

func missingKind(id *identity) error {
	return errMissing{pawl.RetryAfter(kindWait, "the server has no kind "+id.kind+" in "+id.apiVersion()+
		"; this goes on when it does, say when its CustomResourceDefinition was applied")}
}

// forget drops what is known of id's group: the server does not agree any more.
// It keeps what was read just now.
func (d *discovery) forget(id *identity) {
	if gv := d.known[id.apiVersion()]; gv != nil && d.now().Sub(gv.read) >= renewAfter {
		delete(d.known, id.apiVersion())
	}
}

// renew reads id's group, or waits for who reads it already.
func (a *adapter) renew(ctx context.Context, id *identity) error {
	d, name := a.discovery, id.apiVersion()
	if r := d.reading[name]; r != nil {
		select {
		case <-r.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if r.err != nil && !isCancelled(r.err) { // whoever read was given up, and we are not
			return r.err
		}
		return nil
	}
	r := &reading{done: make(chan struct{})}
	name = strings.Clone(name)
	d.reading[name] = r
	gv, err := a.read(ctx, id)
	if err == nil {
		gv.read = d.now()
		d.known[name] = gv
	}
	delete(d.reading, name)
	r.err = err
	close(r.done)
	return err
}

func isCancelled(err error) bool {
	f, ok := err.(*pawl.Failure)
	return ok && (f.Kind == pawl.FailCancelled || f.Kind == pawl.FailTimeout)
}

func (a *adapter) read(ctx context.Context, id *identity) (*groupVersion, error) {
	resp, err := a.do(ctx, "GET", id.groupPath(), nil, "")
	if err != nil {
		return nil, err
	}
	gv := &groupVersion{kinds: map[string]resource{}}
	if resp.Status == 404 {
		return gv, nil
	}
	if resp.Status != 200 {
		return nil, a.classify(resp, id, "read the kinds of "+id.apiVersion())
	}
	root, err := parse(resp.Body)
	if err != nil {
		return nil, pawl.Retry("the server's list of the kinds in " + id.apiVersion() + " is " + err.Error())
	}
	list, _ := root.Get("resources")
	if list.IsZero() || list.Kind() != jsondoc.Array {
		return nil, pawl.Retry("the server's list of the kinds in " + id.apiVersion() + " has no resources")
	}
	for _, r := range list.Items {
		plural, kind := textOf(r, "name"), textOf(r, "kind")
		if strings.Contains(plural, "/") || !isSegment(plural) || !patchable(r) {
			continue // a subresource, or a kind that is only asked, as SubjectAccessReview
		}
		namespaced, _ := r.Get("namespaced")
		gv.kinds[strings.Clone(kind)] = resource{strings.Clone(plural), !namespaced.IsZero() && namespaced.Raw() == "true"}
	}
	return gv, nil
}

// patchable reports whether objects of a resource can be applied.
func patchable(r jsondoc.Value) bool {
	verbs, ok := r.Get("verbs")
	if !ok {
		return false
	}
	for _, v := range verbs.Items {
		if v.Text() == "patch" {
			return true
		}
	}
	return false
}

// groupPath is where the API of the group's version begins.
func (id *identity) groupPath() string {
	if id.group == "" {
		return "/api/" + pawl.EscapePath(id.version)
	}
	return "/apis/" + pawl.EscapePath(id.group) + "/" + pawl.EscapePath(id.version)
}

// place finds out where id's object is. It completes id's namespace.
func (a *adapter) place(ctx context.Context, id *identity) (path string, err error) {
	r, err := a.find(ctx, id)
	if err != nil {
		return "", err
	}
	path = id.groupPath()
	switch {
	case !r.namespaced && id.namespace != "":
		return "", pawl.Rejected(id.kind + " is not namespaced, and " + strconv.Quote(id.namespace) + " is named as its namespace; leave it out")
	case r.namespaced && id.namespace == "" && a.cfg.namespace == "":
		return "", pawl.Rejected(id.kind + " is namespaced; name the namespace, or set one in the sink's config")
	case r.namespaced:
		if id.namespace == "" {
			id.namespace = a.cfg.namespace
		}
		path += "/namespaces/" + pawl.EscapePath(id.namespace)
	}
	return path + "/" + r.plural + "/" + pawl.EscapePath(id.name), nil
}
