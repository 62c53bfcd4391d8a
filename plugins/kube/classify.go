package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// namespaceWait is when resources whose namespace is missing try again.
const namespaceWait = 5 * time.Second

// answer is what a Status of the API says; all of it is empty where the body is
// something else, as that of a proxy on the way.
type answer struct {
	code       int
	reason     string
	message    string
	name, kind string // what it is about
	causes     []cause
	retryAfter time.Duration
	isStatus   bool
}

type cause struct{ reason, message, field string }

func readAnswer(resp *pawl.HTTPResponse) answer {
	s := answer{code: resp.Status}
	if n, err := strconv.ParseUint(resp.Header("Retry-After"), 10, 31); err == nil {
		s.retryAfter = time.Duration(n) * time.Second
	}
	root, err := parse(resp.Body)
	if err != nil || root.Kind() != jsondoc.Object || textOf(root, "kind") != "Status" {
		return s
	}
	s.isStatus = true
	s.reason, s.message = textOf(root, "reason"), textOf(root, "message")
	details, ok := root.Get("details")
	if !ok {
		return s
	}
	s.name, s.kind = textOf(details, "name"), textOf(details, "kind")
	if v, ok := details.Get("retryAfterSeconds"); ok && s.retryAfter == 0 {
		if n, err := strconv.ParseUint(v.Raw(), 10, 31); err == nil {
			s.retryAfter = time.Duration(n) * time.Second
		}
	}
	if causes, ok := details.Get("causes"); ok {
		for _, c := range causes.Items {
			s.causes = append(s.causes, cause{textOf(c, "reason"), textOf(c, "message"), textOf(c, "field")})
		}
	}
	return s
}

// hasCause reports whether one of the causes has that reason.
func (s *answer) hasCause(reason string) bool {
	for _, c := range s.causes {
		if c.reason == reason {
			return true
		}
	}
	return false
}

// Texts by which the API server's own answers are known where it has no code of
// their own for them.
const (
	webhookDenied  = "denied the request"           // of an admission webhook or policy
	webhookFailed  = "failed calling webhook"       // which never answered
	quotaExceeded  = "exceeded quota: "             // of a ResourceQuota
	quotaUnknown   = "status unknown for quota"     // of one that is not ready
	rbacEscalation = "attempting to grant RBAC"     // of rights that the account has not
	typedPatch     = "failed to create typed patch" // of a manifest that does not fit the schema
	typedObject    = "failed to convert new"        // the same
	tooLargeEtcd   = "request is too large"
	beingDeleted   = "object is being deleted"
	// of an object to create, whose kind is being retired
	kindTerminating = "custom resource definition is terminating"
)

// classify turns an answer other than success to a call about id into an error;
// what is the call, for the message.
func (a *adapter) classify(resp *pawl.HTTPResponse, id *identity, what string) error {
	s := readAnswer(resp)
	e := &pawl.Error{Status: pawl.StatusRejected, Message: s.describe(id, what)}
	switch {
	case s.code >= 300 && s.code <= 399:
		e.Message += "; a redirect is never a confirmation: give the upstream the address that it leads to"
	case strings.Contains(s.message, webhookDenied):
	case strings.Contains(s.message, typedPatch), strings.Contains(s.message, typedObject), strings.Contains(s.message, tooLargeEtcd):
	case strings.Contains(s.message, beingDeleted):
		e.Status = pawl.StatusInProgress
	case s.code == 401:
		e.Status = pawl.StatusUnauthorized
	case s.code == 403:
		s.forbidden(e)
	case s.code == 404:
		return a.notFound(&s, e, id)
	case s.reason == "AlreadyExists":
		e.Status = pawl.StatusAlreadyExists
	case s.code == 409:
		e.Status = pawl.StatusConflict
	case s.code == 408, s.code == 410, s.code == 425, s.code == 429, s.code >= 500, s.code < 400:
		e.Status, e.RetryAfter = pawl.StatusRetry, s.retryAfter
		e.WholeTarget = s.retryAfter > 0 && (s.code == 429 || s.code == 503)
	}
	return e
}

// forbidden tells whose fault a refusal is: the account's, the namespace's, the
// kind's, or the object's own.
func (s *answer) forbidden(e *pawl.Error) {
	switch {
	case s.hasCause("NamespaceTerminating"):
		e.Status, e.RetryAfter = pawl.StatusRetry, namespaceWait
	case strings.Contains(s.message, kindTerminating):
		e.Status, e.RetryAfter = pawl.StatusRetry, kindWait
	case strings.Contains(s.message, quotaExceeded), strings.Contains(s.message, quotaUnknown):
		e.Status = pawl.StatusRetry
	case !s.isStatus, // somebody else's word, on the way to the server
		strings.Contains(s.message, `User "`) && strings.Contains(s.message, "cannot "),
		strings.Contains(s.message, rbacEscalation):
		e.Status = pawl.StatusUnauthorized
	}
}

// notFound tells whether the object, its namespace or its kind is missing.
func (a *adapter) notFound(s *answer, e *pawl.Error, id *identity) error {
	switch {
	case s.kind == "namespaces" && id.kind != "Namespace":
		e.Status, e.RetryAfter = pawl.StatusRetry, namespaceWait
		e.Message = "the namespace " + id.namespace + " of " + id.String() + " does not exist; this goes on when it does"
	case s.name != "":
		e.Status = pawl.StatusNotFound
	default: // the path means nothing to the server: it has that kind no more
		a.discovery.forget(id)
		return missingKind(id)
	}
	return e
}

func isNotFound(err error) bool { return errors.Is(err, pawl.StatusNotFound) }

// isImmutable reports whether a change of a field was refused that only a new
// object can have.
func isImmutable(resp *pawl.HTTPResponse) bool {
	if resp.Status != 422 {
		return false
	}
	s := readAnswer(resp)
	for _, c := range s.causes {
		if strings.Contains(c.message, "immutable") || strings.Contains(c.message, "updates to") && strings.Contains(c.message, "forbidden") {
			return true
		}
	}
	return strings.Contains(s.message, "immutable")
}

// maxCauses bounds how many causes a message tells.
const maxCauses = 8

// describe says what the server answered. Values that it repeats are left out:
// messages are logged and kept.
func (s *answer) describe(id *identity, what string) string {
	m := what + " of " + id.String() + ": the server answered " + strconv.Itoa(s.code)
	if s.reason != "" {
		m += " " + s.reason
	}
	if s.hasCause("FieldManagerConflict") {
		return m + ": " + s.conflicts() + "; the sink's policy leaves these fields to their managers"
	}
	if s.code == 422 && len(s.causes) > 0 {
		return m + ": " + s.invalid(id.secret())
	}
	if s.message == "" {
		return m
	}
	if id.secret() && s.code != 401 && s.code != 403 && s.code != 404 {
		return m + "; what else it said is left out, for it may repeat values of the Secret"
	}
	return m + ": " + excerpt(withoutValues(s.message))
}

// conflicts names the fields that others manage, and these.
func (s *answer) conflicts() string {
	var list []string
	for _, c := range s.causes {
		if c.reason == "FieldManagerConflict" {
			list = append(list, c.field+" is managed by "+managerOf(c.message))
		}
	}
	return joinSome(list)
}

// managerOf reads `conflict with "kubectl-edit" using v1`.
func managerOf(message string) string {
	_, rest, ok := strings.Cut(message, `conflict with "`)
	if !ok {
		return "somebody else"
	}
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

// invalid tells of each field what is wrong with it.
func (s *answer) invalid(secret bool) string {
	var list []string
	for _, c := range s.causes {
		m := c.field
		if m == "" || m == "<nil>" {
			m = "the object"
		}
		if secret {
			list = append(list, m+" ("+c.reason+")")
			continue
		}
		list = append(list, m+": "+excerpt(withoutValues(c.message)))
	}
	return joinSome(list)
}

func joinSome(list []string) string {
	if len(list) > maxCauses {
		return strings.Join(list[:maxCauses], "; ") + "; and " + strconv.Itoa(len(list)-maxCauses) + " more"
	}
	return strings.Join(list, "; ")
}
