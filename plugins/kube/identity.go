package main

import (
	"strings"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// identity names an object.
type identity struct {
	group     string // "": the core group
	version   string
	kind      string
	namespace string // "": none is named; of objects that are in none, or the default one is meant
	name      string
}

// coreGroup is how keys may call the group that has no name.
const coreGroup = "core"

// keyForms is for messages.
const keyForms = "group/version/kind/namespace/name; the core group is left out or called core, and so is the namespace of what has none"

// parseKey reads an identity: with five segments each has its place, and may be
// empty where there is no group or no namespace. Without the group the version
// comes first, and without the namespace the name follows the kind.
func parseKey(key string) (id identity, err error) {
	s := strings.Split(key, "/")
	switch {
	case len(s) == 5:
		id = identity{s[0], s[1], s[2], s[3], s[4]}
	case len(s) == 4 && isVersion(s[0]):
		id = identity{"", s[0], s[1], s[2], s[3]}
	case len(s) == 4:
		id = identity{s[0], s[1], s[2], "", s[3]}
	case len(s) == 3 && isVersion(s[0]):
		id = identity{"", s[0], s[1], "", s[2]}
	default:
		return id, pawl.Rejected("the key names no object; it has the form " + keyForms)
	}
	if id.group == coreGroup {
		id.group = ""
	}
	return id, id.check("the key")
}

// isVersion tells a version from a group: v1, v1beta2.
func isVersion(s string) bool {
	return len(s) > 1 && s[0] == 'v' && '0' <= s[1] && s[1] <= '9' && !strings.Contains(s, ".")
}

// check refuses what can't be part of a path; what names it in the message.
func (id *identity) check(what string) error {
	for _, p := range [...]struct{ part, value string }{{"version", id.version}, {"kind", id.kind}, {"name", id.name}} {
		if !isSegment(p.value) {
			return pawl.Rejected(what + "'s " + p.part + " is no name that Kubernetes takes; the form of keys is " + keyForms)
		}
	}
	if id.group != "" && !isSegment(id.group) {
		return pawl.Rejected(what + "'s group is no name that Kubernetes takes")
	}
	if id.namespace != "" && !isSegment(id.namespace) {
		return pawl.Rejected(what + "'s namespace is no name that Kubernetes takes")
	}
	return nil
}

// isSegment reports whether s can be one segment of a path at the API server.
func isSegment(s string) bool {
	if s == "" || s == "." || s == ".." {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '/' || r == '\\' || r == '%' || r == 0x7f })
}

// apiVersion is group and version as manifests write them.
func (id *identity) apiVersion() string {
	if id.group == "" {
		return id.version
	}
	return id.group + "/" + id.version
}

// ref is the identity as a key with five segments.
func (id *identity) ref() string {
	group := id.group
	if group == "" {
		group = coreGroup
	}
	return group + "/" + id.version + "/" + id.kind + "/" + id.namespace + "/" + id.name
}

// object tells objects apart: one object can be had in several versions.
func (id *identity) object() string {
	return id.kind + "." + id.group + "/" + id.namespace + "/" + id.name
}

// String names the object for people.
func (id *identity) String() string {
	s := id.kind
	if id.group != "" {
		s += "." + id.group
	}
	s += " "
	if id.namespace != "" {
		s += id.namespace + "/"
	}
	return s + id.name
}

// secret reports whether the object's values must not be told to anybody.
func (id *identity) secret() bool { return id.kind == "Secret" && id.group == "" }
