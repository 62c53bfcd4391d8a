// Package proxy stands between a client and a server and is told to misbehave.
// It knows TCP alone, so that it serves TLS and HTTP/2 as well as anything.
package proxy

import (
	"io"
	"net"
	"sync"
	"time"
)

// Mode says what a proxy does.
type Mode int

// The modes. A change of mode ends all connections, but for one to or from Delay.
const (
	Pass       Mode = iota // carry everything
	Refuse                 // connections are closed as soon as they are accepted
	Reset                  // connections are reset when the client has sent something
	DropAnswer             // what the client sends arrives; what the server says is lost, and the connection with it
	Silence                // what the client sends arrives; what the server says is held back
	Delay                  // everything arrives after Proxy.Pause
)

// Proxy carries connections to one server.
type Proxy struct {
	Addr  string        // where it listens: 127.0.0.1:PORT
	Pause time.Duration // of Delay; set it before SetMode

	target string
	l      net.Listener
	wg     sync.WaitGroup

	mu     sync.Mutex
	mode   Mode
	conns  map[*link]struct{}
	closed bool
	passed int // connections that were accepted
}

// link is a connection with its other end.
type link struct{ client, server net.Conn }

func (k *link) close() {
	_ = k.client.Close()
	_ = k.server.Close()
}

// Start listens for connections to target, HOST:PORT.
func Start(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Addr: l.Addr().String(), Pause: 50 * time.Millisecond, target: target, l: l, conns: map[*link]struct{}{}}
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

// SetMode changes what the proxy does from now on.
func (p *Proxy) SetMode(m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gentle := (m == Delay || m == Pass) && (p.mode == Delay || p.mode == Pass)
	if p.mode = m; !gentle {
		p.cut()
	}
}

// Connections returns how many connections were accepted so far.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passed
}

// cut ends all connections. p.mu is held.
func (p *Proxy) cut() {
	for k := range p.conns {
		k.close()
	}
}

func (p *Proxy) current() Mode {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode
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
	if p.current() == Refuse {
		reset(c)
		return
	}
	s, err := net.Dial("tcp", p.target)
	if err != nil {
		reset(c)
		return
	}
	k := &link{c, s}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		k.close()
		return
	}
	p.conns[k] = struct{}{}
	p.passed++
	p.mu.Unlock()
	p.wg.Go(func() {
		p.carry(k, s, c, true)
		k.close()
	})
	p.carry(k, c, s, false)
	k.close()
	p.mu.Lock()
	delete(p.conns, k)
	p.mu.Unlock()
}

// carry copies from one end to the other as the mode wants it.
func (p *Proxy) carry(k *link, to, from net.Conn, upwards bool) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if n > 0 && !p.pass(k, to, b[:n], upwards) {
			return
		}
		if err != nil {
			return
		}
	}
}

// pass carries one piece, and reports whether there may be more.
func (p *Proxy) pass(k *link, to io.Writer, piece []byte, upwards bool) bool {
	switch m := p.current(); {
	case m == Refuse, m == Reset && upwards:
		reset(k.client)
		return false
	case m == Silence && !upwards:
		return true
	case m == Delay:
		time.Sleep(p.Pause)
	}
	_, err := to.Write(piece)
	return err == nil
}

// reset closes a connection so that the other end sees it fail.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}
