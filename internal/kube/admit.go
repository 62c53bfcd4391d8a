package kube

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// doors are subresources that lead out of the sandbox: they hand out credentials,
// or reach other addresses through the API server.
var doors = []string{"token", "proxy", "exec", "attach", "portforward"}

// Admit says why a plugin may not send a request, or nil. path is decoded and
// relative to the base URL. It is made for upstream.Options.Admit.
func Admit(_, path, query string) error {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	if sub := subresource(segments); slices.Contains(doors, sub) {
		return fmt.Errorf("the subresource %q leads out of the sandbox and is closed to plugins", sub)
	}
	// Before Kubernetes 1.10 proxies and watches had paths of their own.
	if len(segments) > 2 && segments[0] == "api" && segments[2] == "proxy" {
		return errors.New("the API server's proxy leads out of the sandbox and is closed to plugins")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("the query can't be read: %w", err)
	}
	for _, endless := range []string{"watch", "follow"} {
		if v := values.Get(endless); v != "" && v != "0" && v != "false" {
			return fmt.Errorf("the query parameter %q makes an answer without an end; plugins get whole answers", endless)
		}
	}
	return nil
}

// subresource returns the subresource that a path names, or "":
//
//	/api/v1/[namespaces/NS/]RESOURCE/NAME/SUB…
//	/apis/GROUP/VERSION/[namespaces/NS/]RESOURCE/NAME/SUB…
func subresource(s []string) string {
	switch {
	case len(s) > 2 && s[0] == "api":
		s = s[2:]
	case len(s) > 3 && s[0] == "apis":
		s = s[3:]
	default:
		return ""
	}
	// namespaces/NS/RESOURCE/NAME/SUB; but namespaces/NS/SUB, where SUB is none of
	// the doors, reads like a list of resources, and no resource is called as one.
	if s[0] == "namespaces" && len(s) > 2 {
		s = s[2:]
	}
	if len(s) < 3 {
		return ""
	}
	return strings.ToLower(s[2])
}
