package wire

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Key is the key of a request in Kafka's protocol.
type Key uint16

// The requests that write.
const (
	Produce Key = 0
	EndTxn  Key = 26
)

// When says what is lost of a request.
type When int

// Nothing comes through behind either of them.
const (
	// Before: the request does not arrive.
	Before When = iota
	// After: the request has taken effect, and its answer does not arrive.
	After
)

// Wire is the way of one client to the brokers. Its Dial goes into the client's
// options. The zero value works on the ordinary network. Safe for concurrent
// use; not to be copied.
type Wire struct {
	// Dialer makes the connections. Nil is the ordinary network.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	down  bool
	cut   chan struct{} // closed with the first cut; nil until somebody asks
	trap  *trap
	conns map[*conn]bool
}

// trap cuts the wire at a request.
type trap struct {
	key  Key
	left int // requests of the key until the one
	when When
}

// Dial connects, as long as the wire is not cut.
func (w *Wire) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	down, dial := w.down, w.Dialer
	w.mu.Unlock()
	if down {
		return nil, refused()
	}
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	inner, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, of: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		_ = inner.Close() // cut in the meantime
		return nil, refused()
	}
	if w.conns == nil {
		w.conns = make(map[*conn]bool)
	}
	w.conns[c] = true
	return c, nil
}

// refused is what a dial to a port says on which nobody listens.
func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// Cut breaks all connections; there are no new ones until Mend.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	select {
	case <-w.downLocked():
	default:
		close(w.cut)
	}
	for c := range w.conns {
		_ = c.Conn.Close() // a broken connection is what is wanted
	}
	clear(w.conns)
}

// Down is closed once the wire has been cut.
func (w *Wire) Down() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.downLocked()
}

func (w *Wire) downLocked() <-chan struct{} {
	if w.cut == nil {
		w.cut = make(chan struct{})
	}
	return w.cut
}

// Mend lets connections be made again.
func (w *Wire) Mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down, w.trap = false, nil
}

// CutAt cuts the wire at the nth request of a key from now on; 1 is the next.
func (w *Wire) CutAt(key Key, nth int, when When) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trap = &trap{key, nth, when}
}

// sprung says whether a request that is about to be written is the one of the
// trap, and what is lost of it.
func (w *Wire) sprung(key Key) (When, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trap == nil || w.trap.key != key {
		return 0, false
	}
	if w.trap.left--; w.trap.left > 0 {
		return 0, false
	}
	when := w.trap.when
	w.trap = nil
	return when, true
}

func (w *Wire) forget(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}

// conn is a connection that knows which answer must not arrive.
type conn struct {
	net.Conn

	of *Wire

	mu      sync.Mutex
	waiting bool
	lost    uint32 // correlation id of the answer, if waiting

	answers frames // the reader's own
}

// requestHead is the length, key, version and correlation id of a request.
const requestHead = 4 + 2 + 2 + 4

// Write gets one request at a time.
func (c *conn) Write(b []byte) (int, error) {
	if len(b) >= requestHead {
		when, sprung := c.of.sprung(Key(binary.BigEndian.Uint16(b[4:])))
		switch {
		case sprung && when == Before:
			c.of.Cut()
			return 0, os.NewSyscallError("write", syscall.ECONNRESET)
		case sprung:
			c.mu.Lock()
			c.waiting, c.lost = true, binary.BigEndian.Uint32(b[8:])
			c.mu.Unlock()
		}
	}
	return c.Conn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	cut := false
	c.answers.feed(b[:n], func(id uint32) {
		c.mu.Lock()
		defer c.mu.Unlock()
		cut = cut || c.waiting && id == c.lost
	})
	if cut {
		c.of.Cut()
		return 0, io.EOF
	}
	return n, err
}

func (c *conn) Close() error {
	c.of.forget(c)
	return c.Conn.Close()
}

// frames finds the answers in what is read of a connection: each is a length,
// the correlation id of its request, and the rest.
type frames struct {
	head []byte
	left int // bytes of the answer after its head
}

const answerHead = 4 + 4

func (f *frames) feed(b []byte, answer func(id uint32)) {
	for len(b) > 0 {
		if len(f.head) < answerHead {
			n := min(answerHead-len(f.head), len(b))
			f.head = append(f.head, b[:n]...)
			b = b[n:]
			if len(f.head) < answerHead {
				return
			}
			f.left = int(binary.BigEndian.Uint32(f.head)) - 4
			answer(binary.BigEndian.Uint32(f.head[4:]))
		}
		n := min(f.left, len(b))
		f.left -= n
		b = b[n:]
		if f.left <= 0 {
			f.head = f.head[:0]
		}
	}
}
