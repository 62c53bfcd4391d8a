package access

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// CertificateOptions say where the certificate of the API is.
type CertificateOptions struct {
	// CertFile and KeyFile are a PEM chain and its private key.
	CertFile, KeyFile string
	// ClientCAFile holds the PEM certificates of those who sign client
	// certificates. Defaults to none: callers are asked for no certificate.
	ClientCAFile string
	// ClientOptional: callers without a certificate are let in, to show who they
	// are in another way. One that is shown has to be good nevertheless.
	ClientOptional bool
	// Logger gets what an operator should know. Defaults to none.
	Logger *slog.Logger
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// Certificates are the certificate of the API and the authorities of its callers,
// read again when their files change. A replacement that can't be used, be it
// half-written, of another key or expired, changes nothing but Status and the log.
//
// The files are compared by their bytes: that works for every way to put a file in
// its place, written, renamed, or behind the symbolic links of a Secret's volume.
type Certificates struct {
	o CertificateOptions

	mu      sync.Mutex
	inForce *certificateSet
	refused [sha256.Size]byte // what the newest look found and could not use; zero: nothing
	told    string            // the problem that the log has
	problem error             // with what is in the files now; nil: it is in force
	warned  time.Time         // when the log was last told that the end is near
	read    map[string]int    // replacements by result
}

// expiryWarning is how long before a certificate's end the log says so, once a day.
const expiryWarning = 14 * 24 * time.Hour

// OpenCertificates reads the files. A certificate that has expired is taken at the
// start, with an error in the log: what was accepted goes on being delivered, and
// callers are told by their own TLS.
//
// # Errors
//
// Files that can't be read, a key that is not the certificate's, and authorities
// that hold no certificate.
func OpenCertificates(o CertificateOptions) (*Certificates, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Certificates{o: o, read: map[string]int{}}
	files, err := c.files()
	if err != nil {
		return nil, err
	}
	if c.inForce, err = c.parse(files); err != nil {
		return nil, err
	}
	if err := c.outOfDate(c.inForce); err != nil {
		o.Logger.Error("the API's certificate is not valid now; callers will refuse it", "error", err)
	}
	return c, nil
}

// Config is for a TLS listener. Each handshake uses what is in force then;
// connections that are open go on as they are.
func (c *Certificates) Config() *tls.Config {
	config := c.current().config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current().config, nil }
	return config
}

func (c *Certificates) current() *certificateSet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inForce
}

// Trusts reports whether a verified connection would be let in now: its client
// certificate has not ended meanwhile, and an authority that vouched for it still
// counts. Connections live long, and so would a certificate that was withdrawn.
func (c *Certificates) Trusts(state *tls.ConnectionState) bool {
	now, authorities := c.o.Now(), c.current().authorities
	for _, chain := range state.VerifiedChains {
		good := authorities[string(chain[len(chain)-1].Raw)]
		for _, link := range chain {
			good = good && now.Before(link.NotAfter)
		}
		if good {
			return true
		}
	}
	return false
}

// Run looks at the files until ctx ends.
func (c *Certificates) Run(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.Look()
		}
	}
}

// Look reads the files and takes over what is new. What can't be used is told when
// two looks find the same: a certificate and its key are two files, and seldom
// replaced at one instant.
func (c *Certificates) Look() {
	files, err := c.files()
	sum := sumOf(files)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.warnOfTheEnd()
	if err == nil && sum == c.inForce.sum {
		if c.problem != nil {
			c.o.Logger.Info("the files of the API's certificate hold again what is in force")
		}
		c.refused = [sha256.Size]byte{}
		c.settle(nil)
		return
	}
	var next *certificateSet
	if err == nil {
		next, err = c.parse(files)
	}
	if err == nil {
		err = c.outOfDate(next)
	}
	switch {
	case err == nil:
		c.inForce, c.refused, c.warned = next, [sha256.Size]byte{}, time.Time{}
		c.settle(nil)
		c.read[resultRead]++
		c.o.Logger.Info("the API's certificate was read again; new connections get it", "subject", next.leaf.Subject.String(), "expires", next.leaf.NotAfter)
	case sum != c.refused:
		c.refused = sum
	default:
		c.settle(err)
	}
}

// The results of Status.Read.
const (
	resultRead    = "read"
	resultRefused = "refused"
)

// settle notes what is wrong with the files, nil for nothing, and tells the log once.
func (c *Certificates) settle(err error) {
	c.problem = err
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != c.told {
		c.read[resultRefused]++
		c.o.Logger.Error("the files of the API's certificate changed and can't be used; the certificate in force stays", "error", err, "expires", c.inForce.leaf.NotAfter)
	}
	c.told = text
}

// warnOfTheEnd tells the log once a day that the certificate in force is about to
// expire, and as soon as it has.
func (c *Certificates) warnOfTheEnd() {
	now, ends := c.o.Now(), c.inForce.leaf.NotAfter
	ended := now.After(ends)
	if ends.Sub(now) > expiryWarning || now.Sub(c.warned) < 24*time.Hour && (!ended || c.warned.After(ends)) {
		return
	}
	c.warned = now
	if ended {
		c.o.Logger.Error("the API's certificate has expired, and callers refuse it; put a new one in its files, which are read without a restart", "file", c.o.CertFile, "expired", ends)
		return
	}
	c.o.Logger.Warn("the API's certificate expires soon; put a new one in its files, which are read without a restart", "file", c.o.CertFile, "expires", ends)
}

// CertificateStatus is what is in force, and what keeps the files from being so.
type CertificateStatus struct {
	CertFile   string
	NotAfter   time.Time // of the certificate in force
	ClientsEnd time.Time // when the last of the callers' authorities ends; zero: none are asked for
	ReadAt     time.Time
	Problem    string         // with what the files hold now; "": it is in force
	Read       map[string]int // replacements since the start, by result: read or refused
}

// Status says how the certificate is doing.
func (c *Certificates) Status() CertificateStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := CertificateStatus{
		CertFile: c.o.CertFile, NotAfter: c.inForce.leaf.NotAfter, ClientsEnd: c.inForce.lastCA, ReadAt: c.inForce.at,
		Read: map[string]int{resultRead: c.read[resultRead], resultRefused: c.read[resultRefused]},
	}
	if c.problem != nil {
		s.Problem = c.problem.Error()
	}
	return s
}

// outOfDate says that a certificate is not valid at this time, or nil.
func (c *Certificates) outOfDate(s *certificateSet) error {
	const form = time.RFC3339
	switch now := c.o.Now(); {
	case now.After(s.leaf.NotAfter):
		return fmt.Errorf("the certificate of %s expired at %s; renew it", c.o.CertFile, s.leaf.NotAfter.Format(form))
	case now.Before(s.leaf.NotBefore):
		return fmt.Errorf("the certificate of %s is valid from %s only; is the clock right?", c.o.CertFile, s.leaf.NotBefore.Format(form))
	case !s.lastCA.IsZero() && now.After(s.lastCA):
		return fmt.Errorf("every authority in %s has expired, the last at %s; no caller would be let in", c.o.ClientCAFile, s.lastCA.Format(form))
	}
	return nil
}
