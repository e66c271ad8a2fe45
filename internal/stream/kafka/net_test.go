package kafka

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// network is the way to the brokers, which a test can break.
type network struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	down  bool
	lose  fault
	conns map[*conn]bool
}

type fault int

const (
	loseNothing fault = iota
	loseRequest       // of the next end of a transaction
	loseAnswer
)

// refused is what a dial to a port that nobody listens on says.
func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// Dial is the Dial of [Options].
func (n *network) Dial(ctx context.Context, family, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return nil, refused()
	}
	dial := n.dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	inner, err := dial(ctx, family, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, of: n}
	if n.conns == nil {
		n.conns = make(map[*conn]bool)
	}
	n.conns[c] = true
	return c, nil
}

// cut takes the network down: the connections break, and there are no new ones.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = true
	for c := range n.conns {
		_ = c.Conn.Close()
	}
	clear(n.conns)
}

// mend brings it back.
func (n *network) mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = false
}

// loseNext takes the network down at the next end of a transaction, before the
// request has reached the broker or once the broker has answered it.
func (n *network) loseNext(f fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lose = f
}

// take gives the fault for a request that is about to be written.
func (n *network) take(request []byte) fault {
	const header = 6 // length and key
	if len(request) < header || binary.BigEndian.Uint16(request[4:]) != uint16(kmsg.EndTxn) {
		return loseNothing
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.lose
	n.lose = loseNothing
	return f
}

type conn struct {
	net.Conn

	of *network

	mu   sync.Mutex
	lost bool // what is read next does not arrive
}

func (c *conn) Write(b []byte) (int, error) {
	switch c.of.take(b) {
	case loseRequest:
		c.of.cut()
		return 0, syscall.ECONNRESET
	case loseAnswer:
		c.mu.Lock()
		c.lost = true
		c.mu.Unlock()
	case loseNothing:
	}
	return c.Conn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	lost := c.lost
	c.mu.Unlock()
	if lost {
		c.of.cut()
		return 0, io.EOF
	}
	return n, err
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
