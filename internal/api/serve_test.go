package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealthySaysNothingOfTheDatabase(t *testing.T) {
	t.Parallel()
	h := New(Config{Viewer: brokenViewer{errSecret}, Reader: brokenReader{}})
	if got := get[Health](t, h, "/-/healthy", http.StatusOK); got.Status != "ok" {
		t.Errorf("status %q", got.Status)
	}
	answer := get[RequestError](t, h, "/-/ready", http.StatusServiceUnavailable)
	if !strings.HasPrefix(answer.Message, "not ready: ") || strings.Contains(answer.Message, "SECRET") {
		t.Errorf("error %q", answer.Message)
	}
}

func TestReadyGivesTheReason(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var reason error
	h := r.handler(Config{Ready: func(context.Context) error { return reason }})
	if got := get[Health](t, h, "/-/ready", http.StatusOK); got.Status != "ready" {
		t.Errorf("status %q", got.Status)
	}
	reason = errors.New("no partition is assigned yet")
	if got := get[RequestError](t, h, "/-/ready", http.StatusServiceUnavailable); got.Message != "not ready: no partition is assigned yet" {
		t.Errorf("error %q", got.Message)
	}
}

func TestIndexListsWhatThereIs(t *testing.T) {
	t.Parallel()
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	h := busy(t).handler(Config{Version: "v1.2.3", Metrics: metrics})
	index := get[Index](t, h, "/", http.StatusOK)
	if index.Version != "v1.2.3" || len(index.Paths) != 6 {
		t.Errorf("index %+v", index)
	}
	for _, path := range index.Paths {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if want := http.StatusOK; w.Code != want && (path != "/metrics" || w.Code != http.StatusTeapot) {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
	if got := get[RequestError](t, h, "/api/v2/windows", http.StatusNotFound); got.Message == "" || got.Hint == "" {
		t.Errorf("problem %+v", got)
	}
	get[RequestError](t, New(Config{Viewer: brokenViewer{}, Reader: brokenReader{}}), "/metrics", http.StatusNotFound)
}

func TestServeBindsBeforeItReturns(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Serve(ctx, "127.0.0.1:0", http.NotFoundHandler(), nil)
	check(t, err)
	if status, err := fetch(s.Addr()); status != http.StatusNotFound {
		t.Errorf("status %d, %v", status, err)
	}

	_, err = Serve(ctx, s.Addr(), http.NotFoundHandler(), nil)
	taken, ok := errors.AsType[*ListenError](err)
	if !ok || taken.Addr != s.Addr() || !strings.Contains(taken.Hint(), "another process listens there") {
		t.Errorf("a taken address: %v", err)
	}
	_, err = Serve(ctx, "nonsense", http.NotFoundHandler(), nil)
	bad, ok := errors.AsType[*ListenError](err)
	if !ok || !strings.Contains(bad.Hint(), "host:port") {
		t.Errorf("a bad address: %v", err)
	}
	cancel()
	if err := s.Wait(); err != nil {
		t.Errorf("after the shutdown: %v", err)
	}
}

func fetch(addr string) (status int, err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + addr + "/")
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

func TestServeLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	inside := make(chan context.Context, 1)
	finish := make(chan struct{})
	s, err := Serve(ctx, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inside <- r.Context()
		<-finish
		w.WriteHeader(http.StatusAccepted)
	}), nil)
	check(t, err)
	answered := make(chan int, 1)
	go func() {
		status, _ := fetch(s.Addr()) // a status of 0 says that it failed
		answered <- status
	}()
	request := <-inside
	cancel()
	if err := request.Err(); err != nil {
		t.Errorf("the request was cut off: %v", err)
	}
	close(finish)
	if status := <-answered; status != http.StatusAccepted {
		t.Errorf("status %d", status)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("after the shutdown: %v", err)
	}
}
