package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlsync/pawl/internal/access"
)

// What a daemon with TLS shows of its certificate.
var (
	certificateExpiry  = metric{"pawl_tls_certificate_expiry_timestamp_seconds", gauge, "When what the API's TLS goes by expires, in seconds since 1970: its certificate (server), and the last of those that sign its callers' (client_ca). Absent without TLS.", []string{"certificate"}}
	certificateRefused = metric{"pawl_tls_certificate_refused", gauge, "1 while the files of the API's certificate hold something that can't be used; the certificate in force stays. Absent without TLS.", nil}
	certificateReads   = metric{"pawl_tls_certificate_replacements_total", counter, "Times that the files of the API's certificate changed, by result: read, or refused. Absent without TLS.", []string{"result"}}
)

func ofTLS() []metric { return []metric{certificateExpiry, certificateRefused, certificateReads} }

// CertificateCollector shows how the API's certificate is doing.
type CertificateCollector struct {
	status                    func() access.CertificateStatus
	expiry, refused, replaced *prometheus.Desc
}

// NewCertificateCollector returns a collector of what status says.
func NewCertificateCollector(status func() access.CertificateStatus) *CertificateCollector {
	return &CertificateCollector{status, certificateExpiry.desc(), certificateRefused.desc(), certificateReads.desc()}
}

// Describe implements prometheus.Collector.
func (c *CertificateCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.expiry
	out <- c.refused
	out <- c.replaced
}

// Collect implements prometheus.Collector.
func (c *CertificateCollector) Collect(out chan<- prometheus.Metric) {
	s := c.status()
	out <- prometheus.MustNewConstMetric(c.expiry, prometheus.GaugeValue, seconds(s.NotAfter), "server")
	if !s.ClientsEnd.IsZero() {
		out <- prometheus.MustNewConstMetric(c.expiry, prometheus.GaugeValue, seconds(s.ClientsEnd), "client_ca")
	}
	out <- prometheus.MustNewConstMetric(c.refused, prometheus.GaugeValue, number(s.Problem != ""))
	for result, n := range s.Read {
		out <- prometheus.MustNewConstMetric(c.replaced, prometheus.CounterValue, float64(n), result)
	}
}
