package main

import (
	"errors"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/pawlsync/pawl/plugins/internal/conf"
	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	"github.com/pawlsync/pawl/plugins/spicedb/wire"
)

// desired is what a payload says.
type desired struct {
	want          []relationship // there must be these; none that has expired
	expired       []relationship // these have
	unwanted      []relationship // there must be none of these
	scope         *scope         // in it there must be nothing else; nil: nothing is pruned
	preconditions []wire.Precondition
}

// scope is what a resource that prunes owns: rows of one object.
type scope struct {
	resourceType, resourceID string
	relations, subjectTypes  []string // sorted; none: all
}

// object names the scope's object, as document:readme.
func (s *scope) object() string { return s.resourceType + ":" + s.resourceID }

// has reports whether a row is in the scope.
func (s *scope) has(r *wire.Row) bool {
	return r.ResourceType == s.resourceType && r.ResourceID == s.resourceID &&
		(len(s.relations) == 0 || slices.Contains(s.relations, r.Relation)) &&
		(len(s.subjectTypes) == 0 || slices.Contains(s.subjectTypes, r.SubjectType))
}

// filters choose exactly the scope's rows.
func (s *scope) filters() (fs []wire.Filter) {
	either := func(list []string) []string {
		if len(list) == 0 {
			return []string{""}
		}
		return list
	}
	for _, relation := range either(s.relations) {
		for _, subject := range either(s.subjectTypes) {
			fs = append(fs, wire.Filter{ResourceType: s.resourceType, ResourceID: s.resourceID, Relation: relation, SubjectType: subject})
		}
	}
	return fs
}

// read reads a payload. Its error is for people, and shows nothing of the
// contexts of caveats.
func (cfg *config) read(payload []byte, now time.Time) (*desired, error) {
	doc, err := jsondoc.Parse(unsafe.String(unsafe.SliceData(payload), len(payload)))
	if err != nil {
		return nil, errors.New("payload: " + err.Error())
	}
	d := &desired{}
	list := func(to *[]relationship) func(jsondoc.Value) error {
		return func(v jsondoc.Value) error {
			r, err := readRelationship(v)
			if err == nil {
				*to = append(*to, r)
			}
			return err
		}
	}
	prune, key := cfg.prune, "relationships"
	o := conf.Of("payload: ", doc.Root())
	_, whole := o.Value("relationships", jsondoc.Array)
	_, touches := o.Value("touch", jsondoc.Array)
	_, deletes := o.Value("delete", jsondoc.Array)
	o.Bool("prune", &prune)
	if v, ok := o.Value("scope", jsondoc.Object); ok {
		d.scope = &scope{}
		d.scope.read(o, v)
	}
	o.Array("preconditions", func(v jsondoc.Value) error {
		p, err := readPrecondition(v)
		d.preconditions = append(d.preconditions, p)
		return err
	})
	switch {
	case whole == (touches || deletes):
		o.Fail("relationships", "write either this, all that there must be, or \"touch\" and \"delete\"")
	case whole:
		o.Array("relationships", list(&d.want))
		if prune && d.scope == nil && len(d.want) > 0 {
			d.scope = &scope{resourceType: d.want[0].ResourceType, resourceID: d.want[0].ResourceID}
		}
		switch {
		case prune && d.scope == nil:
			o.Fail("scope", "without relationships it must say of which object there must be none; or write \"prune\": false")
		case !prune && d.scope != nil:
			o.Fail("scope", "it says what is pruned, and \"prune\" is false")
		}
	default:
		key = "touch"
		o.Array("touch", list(&d.want))
		o.Array("delete", list(&d.unwanted))
		if d.scope != nil {
			o.Fail("scope", "it belongs to \"relationships\"; \"touch\" and \"delete\" prune nothing")
		}
	}
	cfg.checkScope(o, d, key)
	checkKeys(o, d, key)
	if err := o.Done(); err != nil {
		return nil, err
	}
	d.want = slices.DeleteFunc(d.want, func(r relationship) bool {
		if r.expired(now) {
			d.expired = append(d.expired, r)
			return true
		}
		return false
	})
	return d, nil
}

// read reads {"resource", "relations", "subject_types"}.
func (s *scope) read(o *conf.Object, v jsondoc.Value) {
	sub := conf.Of("payload: scope.", v)
	resource := ""
	sub.String("resource", &resource)
	var ok bool
	if s.resourceType, s.resourceID, ok = strings.Cut(resource, ":"); !ok || !isTypeName(s.resourceType) || !isObjectID(s.resourceID) {
		sub.Fail("resource", "an object is expected, as document:readme")
	}
	names := func(key string, to *[]string, valid func(string) bool) {
		sub.Array(key, func(v jsondoc.Value) error {
			if name := v.Text(); !valid(name) {
				return errors.New("a name is expected: " + lowerCase)
			} else if !slices.Contains(*to, name) {
				*to = append(*to, name)
			}
			return nil
		})
		slices.Sort(*to)
	}
	names("relations", &s.relations, isName)
	names("subject_types", &s.subjectTypes, isTypeName)
	if err := sub.Done(); err != nil {
		o.Fail("scope", strings.TrimPrefix(err.Error(), "payload: scope."))
	}
}

// checkScope sees to it that two scopes of the sink are equal, or have no row in common.
func (cfg *config) checkScope(o *conf.Object, d *desired, key string) {
	if d.scope == nil {
		return
	}
	if cfg.pruneScope == scopeRelation && len(d.scope.relations) != 1 {
		o.Fail("scope.relations", "exactly one relation is expected: the sink's prune_scope is \"relation\"")
	}
	for i := range d.want {
		if !d.scope.has(&d.want[i].Row) {
			o.Fail(key, d.want[i].key+" is not in the scope that is pruned; a resource that prunes is about one object: take others apart, or write \"prune\": false")
			return
		}
	}
}

// checkKeys refuses rows that come twice: SpiceDB does, too.
func checkKeys(o *conf.Object, d *desired, key string) {
	seen := make(map[string]bool, len(d.want)+len(d.unwanted))
	check := func(rows []relationship, key string) {
		for i := range rows {
			if seen[rows[i].key] {
				o.Fail(key, rows[i].key+" comes twice; caveat and expiration do not tell rows apart")
				return
			}
			seen[rows[i].key] = true
		}
	}
	check(d.want, key)
	check(d.unwanted, "delete")
}

// readPrecondition reads {"must_match": FILTER} or {"must_not_match": FILTER}.
func readPrecondition(v jsondoc.Value) (p wire.Precondition, err error) {
	o := conf.Of("", v)
	match, must := o.Value("must_match", jsondoc.Object)
	mustNot := false
	if !must {
		match, mustNot = o.Value("must_not_match", jsondoc.Object)
	}
	p.MustMatch = must
	if !must && !mustNot {
		o.Fail("must_match", "a filter is expected here or in must_not_match")
		return p, o.Done()
	}
	if err := o.Done(); err != nil {
		return p, err
	}
	f, none := &p.Filter, "-"
	relation := none
	o = conf.Of("", match)
	o.String("resource_type", &f.ResourceType)
	o.String("resource_id", &f.ResourceID)
	o.String("resource_id_prefix", &f.ResourceIDPrefix)
	o.String("relation", &f.Relation)
	o.String("subject_type", &f.SubjectType)
	o.String("subject_id", &f.SubjectID)
	o.String("subject_relation", &relation)
	if f.HasSubjectRelation = relation != none; f.HasSubjectRelation {
		f.SubjectRelation = relation
	}
	if f.SubjectType == "" && (f.SubjectID != "" || f.HasSubjectRelation) {
		o.Fail("subject_type", "it is needed with subject_id and subject_relation")
	}
	if f.ResourceType == "" && f.ResourceID == "" && f.ResourceIDPrefix == "" && f.Relation == "" && f.SubjectType == "" {
		o.Fail("resource_type", "a filter must choose something")
	}
	return p, o.Done()
}
