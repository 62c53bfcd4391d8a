// Package proxy stands between a client and a server and is told to misbehave.
// It knows TCP, and of HTTP/2 without TLS where an answer begins.
package proxy

import (
	"bufio"
	"io"
	"net"
	"sync"
	"time"
)

// Mode says what a proxy does.
type Mode int

// The modes. Refuse and Reset end what is open; the others hold for it too.
const (
	Pass       Mode = iota // carry everything
	Refuse                 // connections are reset as soon as they are accepted
	Reset                  // connections are reset when the client sends something, which is lost
	DropAnswer             // what the client sends arrives; at the answer the connection is reset. TLS connections must be open before
	Delay                  // whatever the server says comes after Proxy.Delay
)

// Proxy carries connections to one server.
type Proxy struct {
	Address string        // where it listens: 127.0.0.1:PORT
	Delay   time.Duration // of the mode of that name. Defaults to 50 ms; set it before Set

	target string
	l      net.Listener
	wg     sync.WaitGroup

	mu     sync.Mutex
	mode   Mode
	links  map[*link]struct{}
	closed bool
}

// link is a connection with its other end.
type link struct {
	client, server net.Conn
	asked          bool // the client has sent something since the mode was set; under Proxy.mu
}

// New listens for connections to target, HOST:PORT.
func New(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Address: l.Addr().String(), Delay: 50 * time.Millisecond, target: target, l: l, links: map[*link]struct{}{}}
	p.wg.Go(p.accept)
	return p, nil
}

// Close ends the proxy and all its connections.
func (p *Proxy) Close() {
	_ = p.l.Close()
	p.mu.Lock()
	p.closed = true
	p.cut()
	p.mu.Unlock()
	p.wg.Wait()
}

// Set changes what the proxy does from now on.
func (p *Proxy) Set(m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	for k := range p.links {
		k.asked = false
	}
	if m == Refuse || m == Reset {
		p.cut()
	}
}

// cut resets all connections. p.mu is held.
func (p *Proxy) cut() {
	for k := range p.links {
		k.reset()
	}
}

func (k *link) reset() {
	reset(k.client)
	_ = k.server.Close()
}

// reset closes a connection so that the other end sees it fail.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(c) })
	}
}

func (p *Proxy) serve(c net.Conn) {
	s, err := net.Dial("tcp", p.target)
	if err != nil {
		reset(c)
		return
	}
	k := &link{client: c, server: s}
	defer k.reset()
	p.mu.Lock()
	refused := p.closed || p.mode == Refuse
	if !refused {
		p.links[k] = struct{}{}
	}
	p.mu.Unlock()
	if refused {
		return
	}
	p.wg.Go(func() {
		p.downwards(k)
		k.reset()
	})
	p.upwards(k)
	p.mu.Lock()
	delete(p.links, k)
	p.mu.Unlock()
}

// upwards carries what the client says.
func (p *Proxy) upwards(k *link) {
	b := make([]byte, 32<<10)
	for {
		n, err := k.client.Read(b)
		if n > 0 {
			p.mu.Lock()
			k.asked = true
			lost := p.mode == Reset
			p.mu.Unlock()
			if lost {
				return
			}
			if _, err := k.server.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// The head of an HTTP/2 frame, and types of frames.
const (
	headBytes     = 9
	headersFrame  = 1
	settingsFrame = 4
)

// downwards carries what the server says: of HTTP/2 frame by frame, so that what
// it says unasked is not taken for an answer.
func (p *Proxy) downwards(k *link) {
	r := bufio.NewReaderSize(k.server, 32<<10)
	head, err := r.Peek(headBytes)
	http2 := err == nil && head[3] == settingsFrame && head[5]|head[6]|head[7]|head[8] == 0
	for {
		n, answer := max(r.Buffered(), 1), true
		if http2 {
			if head, err = r.Peek(headBytes); err != nil {
				return
			}
			n, answer = headBytes+int(head[0])<<16+int(head[1])<<8+int(head[2]), head[3] == headersFrame
		}
		b := make([]byte, n)
		got, err := io.ReadFull(r, b)
		if got == 0 || !p.pass(k, b[:got], answer) || err != nil {
			return
		}
	}
}

// pass carries a piece of what the server says, and reports whether there may be more.
func (p *Proxy) pass(k *link, piece []byte, answer bool) bool {
	p.mu.Lock()
	mode, asked := p.mode, k.asked
	p.mu.Unlock()
	switch {
	case mode == DropAnswer && answer && asked:
		return false
	case mode == Delay:
		time.Sleep(p.Delay)
	}
	_, err := k.client.Write(piece)
	return err == nil
}
