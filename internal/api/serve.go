package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Timeouts of the server. A client that is slower than these is cut off.
const (
	headerTimeout   = 5 * time.Second
	readTimeout     = 10 * time.Second
	writeTimeout    = 60 * time.Second
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 5 * time.Second
	headerBytesMax  = 64 << 10
)

// ListenError says that the address could not be had.
type ListenError struct {
	Addr string
	Err  error
}

func (e *ListenError) Error() string { return fmt.Sprintf("listen on %s: %v", e.Addr, e.Err) }

// Unwrap returns the cause.
func (e *ListenError) Unwrap() error { return e.Err }

// Hint says what to do about it.
func (e *ListenError) Hint() string {
	// Windows has a number of its own for an address in use.
	const wsaAddressInUse = syscall.Errno(10048)
	switch {
	case errors.Is(e.Err, syscall.EADDRINUSE), errors.Is(e.Err, wsaAddressInUse):
		return "another process listens there; stop it, or choose another address with --listen (port 0 takes a free one)"
	case errors.Is(e.Err, fs.ErrPermission):
		return "this user may not listen there; choose a port above 1023 with --listen"
	default:
		return "--listen takes host:port, as in 127.0.0.1:8080"
	}
}

// Server is a running HTTP server.
type Server struct {
	addr net.Addr
	done chan struct{}
	err  error
}

// Serve listens on addr (host:port) and serves until ctx ends; then it lets the
// requests under way finish, for a bounded time. When it returns without error,
// the address is bound and connections are taken. An address that cannot be had
// is a *[ListenError]. A nil logger discards.
func Serve(ctx context.Context, addr string, handler http.Handler, logger *slog.Logger) (*Server, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	logger = logger.With(slog.String("component", "http"))
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, &ListenError{Addr: addr, Err: err}
	}
	// Requests outlive ctx by the time that the shutdown gives them.
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	hs := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytesMax,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	s := &Server{addr: listener.Addr(), done: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- hs.Serve(listener) }()
	go func() {
		defer close(s.done)
		defer cancel()
		s.err = run(ctx, hs, served)
	}()
	logger.Info("listening", slog.String("addr", s.Addr()))
	return s, nil
}

// run waits for the end of ctx or of the server, and shuts down.
func run(ctx context.Context, hs *http.Server, served <-chan error) error {
	select {
	case err := <-served:
		return fmt.Errorf("serve http: %w", err)
	case <-ctx.Done():
	}
	// ctx has ended, and the requests under way still have their time.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := hs.Shutdown(grace); err != nil {
		// Those that are still not done are cut off; that is what the bound is for.
		err = hs.Close()
		if err != nil {
			return fmt.Errorf("close http server: %w", err)
		}
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}

// Addr is the bound address as host:port, with the port that was chosen if the
// one asked for was 0.
func (s *Server) Addr() string { return s.addr.String() }

// Wait blocks until the server has ended and says why: nil after a shutdown by
// the context.
func (s *Server) Wait() error {
	<-s.done
	return s.err
}
