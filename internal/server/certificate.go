package server

import (
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// certificateStatus shows how the API's certificate is doing.
func certificateStatus(s access.CertificateStatus) *api.Certificate {
	return &api.Certificate{File: s.CertFile, Expires: s.NotAfter, ClientsExpire: s.ClientsEnd, ReadAt: s.ReadAt, Problem: s.Problem}
}
