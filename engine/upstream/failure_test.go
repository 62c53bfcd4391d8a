package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// readRequest reads one request off a raw connection, with its body.
func readRequest(br *bufio.Reader) (*http.Request, error) {
	r, err := http.ReadRequest(br)
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	return r, err
}

// reset closes c with RST.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

func TestABrokenAnswerIsAProtocolFailureThatMayHaveBeenSent(t *testing.T) {
	for name, answer := range map[string]string{
		"closed":            "",
		"garbage":           "SSH-2.0-OpenSSH_9.6\r\n",
		"truncated headers": "HTTP/1.1 200 OK\r\nContent-Le",
		"truncated body":    "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
		"truncated chunk":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\nhalf",
		"two lengths":       "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"bad length":        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"switch":            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			base := rawServer(t, func(_ int, c net.Conn) {
				if _, err := readRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.WriteString(c, answer)
				}
			})
			mustFail(t, open(t, base), put("/", "x"), FailProtocol, true)
		})
	}
	t.Run("reset", func(t *testing.T) {
		base := rawServer(t, func(_ int, c net.Conn) {
			_, _ = readRequest(bufio.NewReader(c))
			reset(c)
		})
		mustFail(t, open(t, base), put("/", "x"), FailProtocol, true)
	})
}

func TestATimeoutOrCancellationAfterSendingMayHaveBeenSent(t *testing.T) {
	arrived := make(chan struct{}, 2)
	base := rawServer(t, func(_ int, c net.Conn) {
		if _, err := readRequest(bufio.NewReader(c)); err == nil {
			arrived <- struct{}{}
			_, _ = io.Copy(io.Discard, c)
		}
	})
	u := open(t, base)
	r := put("/", "x")
	r.Timeout = 50 * time.Millisecond
	mustFail(t, u, r, FailTimeout, true)
	<-arrived

	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-arrived; cancel() }()
	_, f := u.Do(ctx, put("/", "x"))
	if f == nil || f.Kind != FailCancelled || !f.MaybeSent {
		t.Errorf("cancelled: %v", f)
	}
	_, f = u.Do(ctx, put("/", "x"))
	if f == nil || f.Kind != FailCancelled || f.MaybeSent {
		t.Errorf("cancelled before: %v", f)
	}
}

func TestAStalledBodyIsATimeout(t *testing.T) {
	base := rawServer(t, func(_ int, c net.Conn) {
		if _, err := readRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
			_, _ = io.Copy(io.Discard, c)
		}
	})
	r := get("/")
	r.Timeout = 50 * time.Millisecond
	mustFail(t, open(t, base), r, FailTimeout, true)
}

func TestAnAnswerBeyondTheLimitIsTooLarge(t *testing.T) {
	const most = 100_000
	sizes := func(c *Config) { c.ResponseMaxBytes = most }
	for _, row := range []struct {
		name             string
		size             int
		announced, fails bool
	}{
		{"announced, empty", 0, true, false},
		{"announced, one", 1, true, false},
		{"announced, at the first read's size", firstReadBytes, true, false},
		{"announced, at the limit", most, true, false},
		{"announced, above", most + 1, true, true},
		{"streamed, empty", 0, false, false},
		{"streamed, at the limit", most, false, false},
		{"streamed, above", most + 1, false, true},
		{"streamed, far above", 10 * most, false, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			content := strings.Repeat("x", row.size)
			u := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if row.announced {
					w.Header().Set("Content-Length", fmt.Sprint(row.size))
				} else {
					w.(http.Flusher).Flush()
				}
				_, _ = io.WriteString(w, content)
			}), sizes)
			if row.fails {
				mustFail(t, u, get("/"), FailTooLarge, true)
				return
			}
			if res := mustDo(t, u, get("/")); string(res.Body) != content {
				t.Errorf("%d bytes arrived, want %d", len(res.Body), row.size)
			}
		})
	}
}

func TestAnAnnouncementBeyondTheLimitIsNotWaitedFor(t *testing.T) {
	base := rawServer(t, func(_ int, c net.Conn) {
		if _, err := readRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}
	})
	r := get("/")
	r.Timeout = 5 * time.Second
	mustFail(t, open(t, base, func(c *Config) { c.ResponseMaxBytes = 10 }), r, FailTooLarge, true)
}

func TestMessagesQuoteNothingOfTheTarget(t *testing.T) {
	err := errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP status code "` + canary + `"`)
	if got := protocolMessage(err); got != "net/http: HTTP/1.x transport connection broken: malformed HTTP status code" {
		t.Errorf("message %q", got)
	}
	sent := newToken(basicHeader("u")(canary), canary)
	if got := redact("a "+canary+" b "+sent.value, []token{sent}); got != "a [redacted] b [redacted]" {
		t.Errorf("redacted %q", got)
	}
}

func TestABodyThatIsNotDeclaredIsNotSent(t *testing.T) {
	u := open(t, serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if body := readAll(t, r.Body); body != "" {
			t.Errorf("the target got %q", body)
		}
	}))
	mustDo(t, u, &Request{Method: "PUT", Path: "/", Body: []byte("x")})
}

func TestALargeAnnouncementCostsNothingBeforeItComes(t *testing.T) {
	body, err := readBody(strings.NewReader("x"), 1<<40, 1<<41)
	if err != nil || cap(body) > firstReadBytes {
		t.Errorf("cap %d, %v", cap(body), err)
	}
}

func TestHugeAnswerHeadersAreTooLarge(t *testing.T) {
	base := rawServer(t, func(_ int, c net.Conn) {
		if _, err := readRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("a", 2*maxResponseHeaderBytes)+"\r\n\r\n")
		}
	})
	mustFail(t, open(t, base), put("/", "x"), FailTooLarge, true)
}

func TestARequestBeyondTheLimitIsDenied(t *testing.T) {
	u := open(t, "http://127.0.0.1:1", func(c *Config) { c.RequestMaxBytes = 3 })
	mustFail(t, u, put("/", "four"), FailDenied, false)
	mustFail(t, u, put("/", "123"), FailConnect, false)
}

func TestAHeadAnswerMayAnnounceMoreThanTheLimit(t *testing.T) {
	u := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "99999") }),
		func(c *Config) { c.ResponseMaxBytes = 10 })
	if res := mustDo(t, u, &Request{Method: "HEAD", Path: "/"}); res.Status != 200 || header(res, "Content-Length") != "99999" {
		t.Errorf("%+v", res)
	}
}

func TestCompressedAnswersStayCompressed(t *testing.T) {
	u := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			t.Error("compression is asked for though the plugin did not")
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "as it comes")
	}))
	if res := mustDo(t, u, get("/")); string(res.Body) != "as it comes" || header(res, "Content-Encoding") != "gzip" {
		t.Errorf("%+v", res)
	}
}

func TestCredentialsNeverShowInFailuresOrAnswers(t *testing.T) {
	bearer := func(c *Config) { c.Credentials.Bearer = Secret{Value: canary} }
	basic := func(c *Config) { c.Credentials.Basic = Basic{Username: "u", Password: Secret{Value: canary}} }
	custom := func(c *Config) { c.Credentials.Headers = []HeaderCredential{{"X-Key", Secret{Value: canary}}} }
	echo := func(format string) func(int, net.Conn) {
		return func(_ int, c net.Conn) {
			r, err := readRequest(bufio.NewReader(c))
			if err != nil {
				return
			}
			sent := r.Header.Get("Authorization") + r.Header.Get("X-Key")
			if !strings.Contains(sent, canary) && !strings.HasPrefix(sent, "Basic ") {
				t.Errorf("the target got %q", sent)
			}
			_, _ = fmt.Fprintf(c, format, sent)
		}
	}
	for name, format := range map[string]string{
		"status line": "%s\r\n\r\n",
		"version":     "HTTP/%s 200 OK\r\n\r\n",
		"header line": "HTTP/1.1 200 OK\r\n%s\r\n\r\n",
		"length":      "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n",
		"coding":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n",
		"header":      "HTTP/1.1 200 OK\r\nX-Echo: you sent %s\r\nContent-Length: 0\r\n\r\n",
		"body":        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nyou sent %s",
		"trailer":     "HTTP/1.1 200 OK\r\nTrailer: X-Echo\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Echo: %s\r\n\r\n",
	} {
		for _, change := range []func(*Config){bearer, basic, custom} {
			u := open(t, rawServer(t, echo(format)), change)
			res, f := u.Do(context.Background(), put("/", "x"))
			if f == nil {
				t.Errorf("%s: the plugin gets %+v", name, res)
				continue
			}
			if strings.Contains(f.Error(), canary) || strings.Contains(f.Error(), u.credentials[0].token.get().value) {
				t.Errorf("%s: the credential shows in %v", name, f)
			}
			if !f.MaybeSent {
				t.Errorf("%s: %v says that nothing was sent", name, f)
			}
		}
	}
}

func TestAClosedUpstreamRefusesAndKeepsNoConnection(t *testing.T) {
	arrived, answer, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	base := rawServer(t, func(_ int, c net.Conn) {
		serveFrames(c, func(f *http2.Framer, h *http2.MetaHeadersFrame) {
			close(arrived)
			<-answer
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: h.StreamID, BlockFragment: []byte{0x88}, EndStream: true, EndHeaders: true}) // :status 200
		})
		close(gone)
	})
	u := open(t, base, func(c *Config) { c.Protocol = ProtocolH2C })
	done := make(chan *Failure)
	go func() { _, f := u.Do(context.Background(), get("/")); done <- f }()
	<-arrived
	u.Close()
	mustFail(t, u, get("/"), FailCancelled, false)
	close(answer)
	if f := <-done; f != nil {
		t.Errorf("the request under way: %v", f)
	}
	<-gone
	u.Close()
}
