package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestABodyThatNeverComesHoldsNoAnswerBack: not of a stranger, who would keep a
// connection for ever, and not of a route that has no use for it.
func TestABodyThatNeverComesHoldsNoAnswerBack(t *testing.T) {
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"of a stranger", "POST /v1/sinks/web/resource/retry?key=k HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1000\r\n\r\n", http.StatusForbidden},
		{"of an order", "POST /v1/sinks/web/resource/retry?key=k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", http.StatusNoContent},
		{"of a Put", "PUT /v1/sinks/web/resource?key=k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", http.StatusRequestTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, hs := start(t, Options{IOTimeout: 20 * time.Millisecond})
			conn, err := net.Dial("tcp", strings.TrimPrefix(hs.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, c.request); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil) // without end where the server waits
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != c.status {
				t.Errorf("got %s", response.Status)
			}
		})
	}
}
