package client

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// What a daemon says that refuses a certificate comes after the connection was made, so
// that we may meet its end before that.
func TestARefusedCertificateIsExplainedWhereItsAlertWasLost(t *testing.T) {
	for _, err := range []error{
		errors.New("remote error: tls: certificate required"), errors.New("http2: client conn could not be established"),
		fmt.Errorf("write: %w", syscall.EPIPE), fmt.Errorf("read: %w", syscall.ECONNRESET),
	} {
		if got := tlsTrouble(err); !strings.Contains(got, "give one with --cert-file") {
			t.Errorf("%v: %q", err, got)
		}
	}
}
