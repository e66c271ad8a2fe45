package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
)

// queryTimeout bounds the work for one request.
const queryTimeout = 15 * time.Second

// countServed bounds how many held records one request reads of a partition
// whose processor does not say how many it holds.
const countServed = 10_000

// Config wires the handler.
type Config struct {
	// Viewer reads the tables, and Reader the log. Required.
	Viewer sink.Viewer
	Reader stream.Reader
	// Live gives what the processor of this process holds. Nil: there is none
	// in this process.
	Live func() Live
	// Metrics serves /metrics. Nil leaves that path out.
	Metrics http.Handler
	// Ready says why this process is not ready to serve, or nil. Its error is
	// shown to the client. Nil: it is ready as soon as the tables can be read.
	Ready func(ctx context.Context) error
	// Version of the program, as shown on the start page.
	Version string
	// WindowSize and Windowed are as in [StatusOptions].
	WindowSize time.Duration
	Windowed   func(topic string) bool
	// Logger receives what clients are not told. Nil discards it.
	Logger *slog.Logger
}

type server struct {
	Config
}

// New makes the handler. Paths that it does not know are a 404 in JSON.
func New(cfg Config) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Logger = cfg.Logger.With(slog.String("component", "api"))
	s := &server{Config: cfg}
	mux := http.NewServeMux()
	if cfg.Metrics != nil {
		mux.Handle("/metrics", readOnly(cfg.Metrics))
	}
	mux.Handle("/-/healthy", s.json(s.healthy))
	mux.Handle("/-/ready", s.json(s.ready))
	mux.Handle("/api/v1/aggregates", s.json(s.aggregates,
		"dimension", "id", "from", "to", "limit", "order", "after"))
	mux.Handle("/api/v1/partitions", s.json(s.partitions))
	mux.Handle("/api/v1/windows", s.json(s.windows, "limit"))
	mux.Handle("/{$}", s.json(s.index))
	mux.Handle("/", s.json(func(*http.Request, url.Values) (any, error) {
		return nil, failure(http.StatusNotFound, "there is nothing at this path", "GET / lists what there is")
	}))
	return secured(http.NewCrossOriginProtection().Handler(mux))
}

// RequestError is what went wrong with a request.
type RequestError struct {
	// Message says what is wrong, and Hint what to do about it.
	Message string `json:"error"`
	Hint    string `json:"hint,omitempty"`

	status int
}

func (p *RequestError) Error() string { return p.Message }

// failure makes the error that a client is told.
func failure(status int, message, hint string) *RequestError {
	return &RequestError{Message: message, Hint: hint, status: status}
}

// json serves what answer returns, as JSON; params are the query parameters that
// it takes, each once.
func (s *server) json(answer func(*http.Request, url.Values) (any, error), params ...string) http.Handler {
	return readOnly(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
		defer cancel()
		query, err := parseQuery(r.URL.RawQuery, params)
		var body any
		if err == nil {
			body, err = answer(r.WithContext(ctx), query)
		}
		if err != nil {
			p := s.explain(r, err)
			s.write(w, r, p.status, p)
			return
		}
		s.write(w, r, http.StatusOK, body)
	}))
}

// parseQuery is strict: a parameter that is misspelt or given twice would
// otherwise silently answer another question.
func parseQuery(raw string, params []string) (url.Values, error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, failure(http.StatusBadRequest, "the query string cannot be read", "escape each value as %XX")
	}
	for name, values := range query {
		switch {
		case !slices.Contains(params, name):
			hint := "this path takes no parameters"
			if len(params) > 0 {
				hint = "known here: " + strings.Join(params, ", ")
			}
			return nil, failure(http.StatusBadRequest, "unknown parameter", hint)
		case len(values) > 1:
			return nil, failure(http.StatusBadRequest, "parameter "+name+" is given more than once", "")
		}
	}
	return query, nil
}

// explain turns an error into what the client is told; what it is not told is
// logged.
func (s *server) explain(r *http.Request, err error) *RequestError {
	if p, ok := errors.AsType[*RequestError](err); ok {
		return p
	}
	if r.Context().Err() != nil {
		return failure(http.StatusServiceUnavailable, "the request was given up", "")
	}
	s.Logger.Warn("request failed", slog.String("route", r.Pattern), slog.Any("error", err))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return failure(http.StatusServiceUnavailable, "the answer took too long", "ask for less, or try again")
	case errors.Is(err, sink.ErrTransient):
		return failure(http.StatusServiceUnavailable, "the tables cannot be read now", "try again; the log of this process says more")
	default:
		return failure(http.StatusInternalServerError, "the tables or the log could not be read", "the log of this process says why")
	}
}

func (s *server) write(w http.ResponseWriter, r *http.Request, status int, body any) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // the answer is no HTML, and next is to be read
	if err := encoder.Encode(body); err != nil {
		s.Logger.Error("encode answer", slog.String("route", r.Pattern), slog.Any("error", err))
		status = http.StatusInternalServerError
		text.Reset()
		text.WriteString(`{"error":"the answer has no form in JSON"}` + "\n")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(text.Bytes()); err != nil {
		// The client is gone; there is nobody to tell.
		s.Logger.Debug("write answer", slog.String("route", r.Pattern), slog.Any("error", err))
	}
}

// readOnly refuses every method but GET and HEAD.
func readOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusMethodNotAllowed)
			_, _ = w.Write([]byte(`{"error":"this server only reads","hint":"use GET"}` + "\n")) // a client that is gone needs no answer
			return
		}
		h.ServeHTTP(w, r)
	})
}

// secured sets the headers that every answer has.
func secured(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		header.Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
	})
}

// Index is the start page.
type Index struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Paths   []string `json:"paths"`
}

func (s *server) index(*http.Request, url.Values) (any, error) {
	paths := []string{
		"/api/v1/aggregates?dimension=line&limit=20", "/api/v1/partitions", "/api/v1/windows", "/-/healthy", "/-/ready",
	}
	if s.Metrics != nil {
		paths = append(paths, "/metrics")
	}
	return Index{Name: "peil", Version: s.Version, Paths: paths}, nil
}

// Health is the answer of the two probes.
type Health struct {
	Status string `json:"status"`
}

// healthy asks nothing: a database that is away is no reason to restart this
// process.
func (s *server) healthy(*http.Request, url.Values) (any, error) { return Health{Status: "ok"}, nil }

// readyTimeout bounds the readiness probe, below what probes commonly wait.
const readyTimeout = 2 * time.Second

func (s *server) ready(r *http.Request, _ url.Values) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if s.Ready != nil {
		if err := s.Ready(ctx); err != nil {
			return nil, failure(http.StatusServiceUnavailable, "not ready: "+err.Error(), "")
		}
	}
	if err := s.readable(ctx); err != nil {
		s.Logger.Warn("tables cannot be read", slog.Any("error", err))
		return nil, failure(http.StatusServiceUnavailable, "not ready: the tables cannot be read",
			"the log of this process says why")
	}
	return Health{Status: "ready"}, nil
}

// readable opens a view and reads the smallest table.
func (s *server) readable(ctx context.Context) (err error) {
	view, err := s.Viewer.View(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	_, err = view.Offsets(ctx)
	return err
}
