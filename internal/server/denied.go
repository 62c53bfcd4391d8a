package server

import (
	"net/http"

	"github.com/pawlsync/pawl/internal/access"
)

// countStranger counts a caller that was not let in, by the status of the answer.
func (s *Server) countStranger(status int) {
	switch status {
	case http.StatusUnauthorized:
		s.o.Denied(access.DeniedCredentials)
	case http.StatusForbidden:
		s.o.Denied(access.DeniedSite)
	default:
		s.o.Denied(access.DeniedUnavailable)
	}
}

// countDenial counts a request of a known caller that was answered 403.
func (s *Server) countDenial(status int) {
	if status == http.StatusForbidden {
		s.o.Denied(access.DeniedScope)
	}
}
