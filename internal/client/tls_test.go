package client

import (
	"errors"
	"strings"
	"testing"
)

// What a daemon says that refuses a certificate comes after the connection was made, so
// that HTTP/2 may meet the end before it.
func TestARefusedCertificateIsExplainedWhereItsAlertWasLost(t *testing.T) {
	for _, text := range []string{"remote error: tls: certificate required", "http2: client conn could not be established"} {
		if got := tlsTrouble(errors.New(text)); !strings.Contains(got, "give one with --cert-file") {
			t.Errorf("%s: %q", text, got)
		}
	}
}
