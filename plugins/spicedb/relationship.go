package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/pawlsync/pawl/plugins/internal/conf"
	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	"github.com/pawlsync/pawl/plugins/spicedb/wire"
)

// relationship is a row with its key: what SpiceDB tells rows apart by, which
// is all of it but caveat and expiration.
type relationship struct {
	key string // document:readme#viewer@user:anne, document:readme#viewer@group:eng#member
	wire.Row
}

// keyOf writes r's key.
func keyOf(r *wire.Row) string {
	key := r.ResourceType + ":" + r.ResourceID + "#" + r.Relation + "@" + r.SubjectType + ":" + r.SubjectID
	if r.SubjectRelation != "" {
		key += "#" + r.SubjectRelation
	}
	return key
}

// sameTraits reports whether two rows of one key have caveat and expiration in common.
func (r *relationship) sameTraits(o *relationship) bool {
	return r.Caveat == o.Caveat && string(r.Context) == string(o.Context) && r.sameExpiry(o)
}

func (r *relationship) sameExpiry(o *relationship) bool {
	return r.Expires == o.Expires && r.ExpiresSeconds == o.ExpiresSeconds && micros(r.ExpiresNanos) == micros(o.ExpiresNanos)
}

// micros drops what SpiceDB's databases do not keep of a time.
func micros(nanos int32) int32 { return nanos / 1000 }

// expired reports whether the row counts no more.
func (r *relationship) expired(now time.Time) bool {
	return r.Expires && !time.Unix(r.ExpiresSeconds, int64(r.ExpiresNanos)).After(now)
}

// digest is the row's share of what an ack keeps: everything of it.
func (r *relationship) digest() jsondoc.Digest {
	text := r.key
	if r.Caveat != "" {
		text += "[" + r.Caveat + ":" + string(r.Context) + "]"
	}
	if r.Expires {
		text += expirationMark + strconv.FormatInt(r.ExpiresSeconds, 10) + "." + strconv.Itoa(int(micros(r.ExpiresNanos))) + "]"
	}
	return jsondoc.DigestBytes(text)
}

// readRelationship reads one entry of a payload: a string in SpiceDB's own
// notation, or an object.
func readRelationship(v jsondoc.Value) (relationship, error) {
	if v.Kind() == jsondoc.String {
		return parseRelationship(v.Text())
	}
	return readObject(v)
}

const (
	expirationMark = "[expiration:"
	howToWrite     = "a relationship is written as document:readme#viewer@user:anne"
)

// parseRelationship reads document:readme#viewer@user:anne[caveat:{"n":1}][expiration:2030-01-01T00:00:00Z].
func parseRelationship(s string) (r relationship, err error) {
	key, traits := s, ""
	if i := strings.IndexByte(s, '['); i >= 0 {
		key, traits = s[:i], s[i:]
	}
	if err := r.parseKey(key); err != nil || traits == "" {
		return r, err
	}
	if traits[len(traits)-1] != ']' {
		return r, errTraits
	}
	if i := strings.LastIndex(traits, expirationMark); i >= 0 {
		at := traits[i+len(expirationMark) : len(traits)-1]
		if !strings.ContainsAny(at, "]}\"") { // else it stands within the caveat's context
			if err := r.expireAt(at); err != nil {
				return r, err
			}
			traits = traits[:i]
		}
	}
	if traits == "" {
		return r, nil
	}
	if len(traits) < 2 || traits[len(traits)-1] != ']' {
		return r, errTraits
	}
	name, context, has := strings.Cut(traits[1:len(traits)-1], ":")
	if !has {
		return r, r.under(name, nil)
	}
	d, err := jsondoc.Parse(context)
	if err != nil {
		return r, errors.New("the caveat's context is " + err.Error())
	}
	root := d.Root()
	return r, r.under(name, &root)
}

var errTraits = errors.New(`a caveat is written as [name] or [name:{"n":1}], and after it an expiration as [expiration:2030-01-01T00:00:00Z]`)

// parseKey reads what comes before caveat and expiration.
func (r *relationship) parseKey(key string) error {
	key = strings.TrimSuffix(key, "#...") // SpiceDB's other word for the subject itself
	resource, subject, ok := strings.Cut(key, "@")
	if !ok {
		return errors.New(howToWrite)
	}
	object, relation, ok := strings.Cut(resource, "#")
	if !ok {
		return errors.New("the resource's relation is missing; " + howToWrite)
	}
	r.key, r.Relation = key, relation
	if r.ResourceType, r.ResourceID, ok = strings.Cut(object, ":"); !ok {
		return errors.New("the resource's type is missing; " + howToWrite)
	}
	subject, r.SubjectRelation, ok = strings.Cut(subject, "#")
	if ok && r.SubjectRelation == "" {
		return errors.New("the subject ends with #, and no relation follows")
	}
	if r.SubjectType, r.SubjectID, ok = strings.Cut(subject, ":"); !ok {
		return errors.New("the subject's type is missing; " + howToWrite)
	}
	switch {
	case !isTypeName(r.ResourceType):
		return errors.New("the resource's type is no name of a definition: " + lowerCase)
	case !isObjectID(r.ResourceID):
		return errors.New("the resource's ID is to have 1 to 1024 of A-Z a-z 0-9 / _ | - = +")
	case !isName(r.Relation):
		return errors.New("the relation is no name of one: " + lowerCase)
	case !isTypeName(r.SubjectType):
		return errors.New("the subject's type is no name of a definition: " + lowerCase)
	case r.SubjectID != "*" && !isObjectID(r.SubjectID):
		return errors.New("the subject's ID is to be * or to have 1 to 1024 of A-Z a-z 0-9 / _ | - = +")
	case r.SubjectRelation != "" && !isName(r.SubjectRelation):
		return errors.New("the subject's relation is no name of one: " + lowerCase)
	}
	return nil
}

// readObject reads {"resource", "relation", "subject", "caveat": {"name", "context"}, "expires_at"}.
func readObject(v jsondoc.Value) (r relationship, err error) {
	var resource, relation, subject, expires, caveat string
	var context *jsondoc.Value
	o := conf.Of("", v)
	o.String("resource", &resource)
	o.String("relation", &relation)
	o.String("subject", &subject)
	o.String("expires_at", &expires)
	o.Object("caveat", func(c *conf.Object) {
		c.String("name", &caveat)
		if v, ok := c.Value("context", jsondoc.Object); ok {
			context = &v
		}
		if caveat == "" {
			c.Fail("name", "the caveat's name is needed")
		}
	})
	if err := o.Done(); err != nil {
		return r, err
	}
	if strings.ContainsAny(resource, "#@") || strings.Contains(relation, "@") {
		return r, errors.New("resource is TYPE:ID, relation a name, and subject TYPE:ID or TYPE:ID#RELATION")
	}
	if err := r.parseKey(resource + "#" + relation + "@" + subject); err != nil {
		return r, err
	}
	if expires != "" {
		if err := r.expireAt(expires); err != nil {
			return r, err
		}
	}
	if caveat == "" {
		return r, nil
	}
	return r, r.under(caveat, context)
}

// under puts the row under a caveat; a nil context is an empty one.
func (r *relationship) under(name string, context *jsondoc.Value) (err error) {
	if r.Caveat = name; !isTypeName(name) {
		return errors.New("the caveat's name is none: " + lowerCase)
	}
	if context == nil {
		return nil
	}
	if context.Kind() != jsondoc.Object {
		return errors.New("the caveat's context is to be an object, not " + context.Kind().String())
	}
	r.Context, err = wire.ContextOf(*context)
	return err
}

// expireAt gives the row an expiration (RFC 3339).
func (r *relationship) expireAt(s string) error {
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return errors.New("the expiration is to be a time such as 2030-01-01T00:00:00Z")
	}
	at = at.Truncate(time.Microsecond)
	r.Expires, r.ExpiresSeconds, r.ExpiresNanos = true, at.Unix(), int32(at.Nanosecond())
	return nil
}

// What SpiceDB takes for names and IDs; see the patterns in core.proto.

const lowerCase = "3 to 64 of a-z 0-9 _, a letter first and no _ last"

func isName(s string) bool {
	if len(s) < 3 || len(s) > 64 || s[0] < 'a' || s[0] > 'z' || s[len(s)-1] == '_' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// isTypeName is isName with prefixes, as tenant/document.
func isTypeName(s string) bool {
	for {
		prefix, rest, more := strings.Cut(s, "/")
		if !more {
			return isName(s)
		}
		if len(prefix) > 63 || !isName(prefix) {
			return false
		}
		s = rest
	}
}

func isObjectID(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '/' || c > '9') && c != '_' && c != '|' && c != '-' && c != '=' && c != '+' {
			return false
		}
	}
	return s != "" && len(s) <= 1024
}
