package ingest_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/peil-stream/peil/internal/ingest"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

func zip(tb testing.TB, body []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(body); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func asJSON(tb testing.TB, m *pb.FeedMessage) []byte {
	tb.Helper()
	body, err := protojson.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

// replay plays a folder; it must work.
func (r *rig) replay(ing *ingest.Ingester, o ingest.Options) ingest.Report {
	r.tb.Helper()
	report, err := ingest.Replay(r.tb.Context(), ing, o)
	if err != nil {
		r.tb.Fatalf("replay: %v", err)
	}
	return report
}

// polls makes the files of a capture: one trip, a new prediction with every poll.
func polls(tb testing.TB, headers ...int64) map[string][]byte {
	tb.Helper()
	out := map[string][]byte{}
	for i, header := range headers {
		out[string(rune('a'+i))+".pb"] = marshal(tb, feed(header, trip("a", header, stop(1, 600, int32(i)))))
	}
	return out
}

// skips gives the skipped files by name.
func skips(report ingest.Report) map[string]ingest.SkipReason {
	out := map[string]ingest.SkipReason{}
	for _, s := range report.Skipped {
		out[filepath.Base(s.Path)] = s.Reason
	}
	return out
}

// TestReplayOrder holds that all forms of snapshots are played in header-time
// order, ties by path, and that what is left out is named.
func TestReplayOrder(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string][]byte{
		"z/first.pb":              marshal(t, feed(10, trip("a", 10, stop(1, 600, 1)))),
		"b.json":                  asJSON(t, feed(20, trip("a", 20, stop(1, 600, 2)))),
		"a.JSON.gz":               zip(t, asJSON(t, feed(30, trip("a", 30, stop(1, 600, 3))))),
		"c.pb.gz":                 zip(t, marshal(t, feed(40, trip("a", 40, stop(1, 600, 4)), vehicle("v", 40, 4)))),
		"d.pb.gz":                 marshal(t, feed(50, trip("a", 50, stop(1, 600, 5)))), // named .gz, but is not
		"e.pb":                    zip(t, marshal(t, feed(60))),                         // the other way round
		"e2-vehicle-positions.pb": marshal(t, feed(60)),
		"f-vehicles.pb":           marshal(t, feed(45, vehicle("v", 45, 5))),
		"g-alerts.pb":             marshal(t, feed(70)),
		"h.pb":                    marshal(t, feed(70, &pb.FeedEntity{Id: new("x"), Alert: &pb.Alert{}})),
		"i.pb":                    marshal(t, feed(60)), // the same header as e.pb
		"j.pb":                    []byte("<html>"),
		"k.json":                  {},
		"l.pb.gz":                 zip(t, marshal(t, feed(80)))[:20],
		"m.pb":                    marshal(t, &pb.FeedMessage{Header: &pb.FeedHeader{Incrementality: pb.FeedHeader_DIFFERENTIAL.Enum()}}),
		"README.txt":              []byte("a capture"),
		".git/config":             {},
	})
	if err := os.Symlink(filepath.Join(dir, "b.json"), filepath.Join(dir, "z", "link.json")); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, 1)
	var seen []ingest.Progress
	report := r.replay(r.open(), ingest.Options{
		Paths:    []string{dir, filepath.Join(dir, "b.json"), filepath.Join(dir, "z")},
		Progress: func(p ingest.Progress) { seen = append(seen, p) },
	})
	wantSays(t, r, arrivals, "10 f|f:a| #1 1", "10 <heartbeat>", "20 f|f:a| #1 2", "20 <heartbeat>", "30 f|f:a| #1 3", "30 <heartbeat>",
		"40 f|f:a| #1 4", "40 <heartbeat>", "50 f|f:a| #1 5", "50 <heartbeat>", "60 <heartbeat>")
	wantSays(t, r, positions, "40 f|f:v 4", "45 f|f:v 5")
	if diff := cmp.Diff(map[string]ingest.SkipReason{
		"README.txt": ingest.NoCapture, "config": ingest.NoCapture, "g-alerts.pb": ingest.AlertsOnly, "h.pb": ingest.AlertsOnly,
		"i.pb": ingest.NotNewer, "link.json": ingest.NotNewer,
	}, skips(report)); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	classes := map[string]gtfsrt.Class{}
	for _, f := range report.Failures {
		e, ok := errors.AsType[*gtfsrt.DecodeError](f.Err)
		if !ok {
			t.Fatalf("%s: %v", f.Path, f.Err)
		}
		classes[filepath.Base(f.Path)] = e.Class
	}
	if diff := cmp.Diff(map[string]gtfsrt.Class{
		"j.pb": gtfsrt.NotGTFSRT, "k.json": gtfsrt.Empty, "l.pb.gz": ingest.BadGzip, "m.pb": gtfsrt.Differential,
	}, classes); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if report.Failed != 4 || report.Files != 18 || report.Snapshots != 8 || report.NotNewer != 2 || report.Events() != 7 {
		t.Errorf("report %+v", report)
	}
	last := seen[len(seen)-1]
	if len(seen) != 18+10 || !seen[17].Reading || seen[18].Reading || last.Done != last.Total || last.Total != 10 || last.Events != 7 {
		t.Errorf("%d notes of progress, the last %+v", len(seen), last)
	}
}

// TestReplayAgain holds that a replay that was interrupted goes on, and one that
// was finished ends at once.
func TestReplayAgain(t *testing.T) {
	t.Parallel()
	dir := write(t, polls(t, 10, 20, 30, 40, 50))
	calm, r := newRig(t, 2), newRig(t, 2)
	calm.replay(calm.open(), ingest.Options{Paths: []string{dir}, Close: true})

	ctx, stop := context.WithCancel(t.Context())
	report, err := ingest.Replay(ctx, r.open(), ingest.Options{Paths: []string{dir}, Close: true, Progress: func(p ingest.Progress) {
		if !p.Reading && p.Done == 2 {
			stop()
		}
	}})
	if err != nil || !report.Interrupted || report.Snapshots != 2 || report.CloseMarkers != 0 {
		t.Fatalf("interrupted: %+v, %v", report, err)
	}
	report = r.replay(r.open(), ingest.Options{Paths: []string{dir}, Close: true})
	if report.Interrupted || report.Snapshots != 3 || report.NotNewer != 2 || report.CloseMarkers != 2 {
		t.Errorf("the rest: %+v", report)
	}
	if diff := cmp.Diff(calm.records(arrivals), r.records(arrivals)); diff != "" {
		t.Errorf("log mismatch (-calm +interrupted):\n%s", diff)
	}
	report = r.replay(r.open(), ingest.Options{Paths: []string{dir}, Close: true, Speed: 1, Sleep: func(context.Context, time.Duration) {
		t.Error("waits for what is there already")
	}})
	if report.Snapshots != 0 || report.NotNewer != 5 || report.CloseMarkers != 0 || skips(report)["a.pb"] != ingest.NotNewer {
		t.Errorf("once more: %+v", report)
	}
	if diff := cmp.Diff(calm.records(arrivals), r.records(arrivals)); diff != "" {
		t.Errorf("once more appends (-calm +again):\n%s", diff)
	}
}

// TestReplayBefore holds which captures are refused because they come too late.
func TestReplayBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	ing := r.open()
	r.replay(ing, ingest.Options{Paths: []string{write(t, polls(t, 100, 200))}})
	_, err := ingest.Replay(t.Context(), ing, ingest.Options{Paths: []string{write(t, polls(t, 50, 150))}})
	before, ok := errors.AsType[*ingest.BeforeError](err)
	if !ok || before.Hint() == "" || !strings.Contains(err.Error(), "ends at 2026-09-21T14:17:30Z, but topic arrival-predictions holds feed f up to 2026-09-21T14:18:20Z") {
		t.Fatalf("a capture before it: %v", err)
	}
	r.replay(ing, ingest.Options{Paths: []string{write(t, polls(t, 150, 250))}}) // overlaps
	vehicles := write(t, map[string][]byte{"a.pb": marshal(t, feed(20, vehicle("v", 20, 1)))})
	r.replay(ing, ingest.Options{Paths: []string{vehicles}}) // another source
	_, err = ingest.Replay(t.Context(), ing, ingest.Options{Paths: []string{write(t, map[string][]byte{"a.pb": marshal(t, feed(10, vehicle("v", 10, 1)))})}})
	if before, ok := errors.AsType[*ingest.BeforeError](err); !ok || before.Topic != positions {
		t.Errorf("positions before theirs: %v", err)
	}
	both := write(t, map[string][]byte{"a.pb": marshal(t, feed(30, vehicle("v", 30, 1), trip("a", 30)))})
	if report := r.replay(ing, ingest.Options{Paths: []string{both}}); report.Positions != 1 || report.Predictions != 0 {
		t.Errorf("only its positions are new: %+v", report)
	}
}

func TestReplayRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	ing := r.open()
	good := write(t, polls(t, 10))
	for name, test := range map[string]struct {
		options ingest.Options
		is      error
	}{
		"missing path":       {ingest.Options{Paths: []string{good, filepath.Join(good, "nowhere")}}, fs.ErrNotExist},
		"no path":            {ingest.Options{}, nil},
		"nothing to play":    {ingest.Options{Paths: []string{write(t, map[string][]byte{"a.txt": nil})}}, nil},
		"an empty folder":    {ingest.Options{Paths: []string{t.TempDir()}}, nil},
		"a speed below zero": {ingest.Options{Paths: []string{good}, Speed: -1}, nil},
	} {
		if _, err := ingest.Replay(t.Context(), ing, test.options); err == nil || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantSays(t, r, arrivals)
}

// TestReplayLinks holds that a link to a folder is played, and that a file which
// cannot be read is named and costs only itself.
func TestReplayLinks(t *testing.T) {
	t.Parallel()
	dir, elsewhere := write(t, polls(t, 10, 20)), t.TempDir()
	for link, target := range map[string]string{
		filepath.Join(elsewhere, "latest"): dir,
		filepath.Join(dir, "dangling.pb"):  filepath.Join(dir, "nowhere"),
		filepath.Join(dir, "loop"):         dir,
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t, 1)
	report := r.replay(r.open(), ingest.Options{Paths: []string{filepath.Join(elsewhere, "latest")}})
	if report.Snapshots != 2 || report.Failed != 1 || !errors.Is(report.Failures[0].Err, fs.ErrNotExist) {
		t.Errorf("report %+v", report)
	}
}

// TestReplaySpeed holds how long a replay waits: as recorded, divided by the
// speed, less the time that publishing took.
func TestReplaySpeed(t *testing.T) {
	t.Parallel()
	dir := write(t, polls(t, 10, 20, 50, 60))
	for _, test := range []struct {
		speed float64
		want  []time.Duration
	}{
		{0, []time.Duration{0, 0, 0, 0}},
		{1, []time.Duration{0, 9 * time.Second, 29 * time.Second, 9 * time.Second}},
		{10, []time.Duration{0, 0, 2 * time.Second, 0}},
	} {
		r := newRig(t, 1)
		clock := now()
		r.cfg.Now = func() time.Time { return clock }
		var got []time.Duration
		r.replay(r.open(), ingest.Options{
			Paths: []string{dir}, Speed: test.speed,
			Sleep: func(_ context.Context, d time.Duration) {
				got = append(got, d)
				clock = clock.Add(d)
			},
			Progress: func(p ingest.Progress) {
				if !p.Reading {
					clock = clock.Add(time.Second)
				}
			},
		})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("speed %v (-want +got):\n%s", test.speed, diff)
		}
	}
}

// TestReplayTimer holds that the timer of a replay waits, and ends with ctx.
func TestReplayTimer(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	dir := write(t, polls(t, 10, 20, 10_000))
	report, err := ingest.Replay(ctx, r.open(), ingest.Options{Paths: []string{dir}, Speed: 1000})
	if err != nil || !report.Interrupted || report.Snapshots != 2 {
		t.Fatalf("%+v, %v, want two snapshots and an end", report, err)
	}
}

// TestFileThatChanges holds that a file is judged anew when it is played.
func TestFileThatChanges(t *testing.T) {
	t.Parallel()
	dir := write(t, polls(t, 10, 20, 30))
	r := newRig(t, 1)
	report := r.replay(r.open(), ingest.Options{Paths: []string{dir}, Progress: func(p ingest.Progress) {
		if p.Reading && p.Done == p.Total {
			for name, body := range map[string][]byte{"b.pb": []byte("gone"), "c.pb": marshal(t, feed(5))} {
				if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
					t.Error(err)
				}
			}
		}
	}})
	if report.Failed != 1 || report.Snapshots != 1 || report.NotNewer != 1 {
		t.Errorf("report %+v", report)
	}
}

// TestO04Expand holds that a body is stopped at the cap while it is expanded,
// whatever it says of itself.
func TestO04Expand(t *testing.T) {
	t.Parallel()
	zeros := zip(t, make([]byte, 10<<20))
	_, err := ingest.Expand(zeros, 1<<20)
	if e, ok := errors.AsType[*gtfsrt.DecodeError](err); !ok || e.Class != gtfsrt.TooLarge {
		t.Errorf("10 MiB of zeros: %v", err)
	}
	for _, test := range []struct {
		name string
		body []byte
		want string
	}{
		{"plain", []byte("abc"), "abc"},
		{"empty", nil, ""},
		{"exactly the limit", zip(t, []byte("12345")), "12345"},
		{"two members", append(zip(t, []byte("12")), zip(t, []byte("345"))...), "12345"},
	} {
		if got, err := ingest.Expand(test.body, 5); err != nil || string(got) != test.want {
			t.Errorf("%s: %q, %v", test.name, got, err)
		}
	}
	for _, body := range [][]byte{{0x1f, 0x8b}, zeros[:len(zeros)/2]} {
		_, err := ingest.Expand(body, 64<<20)
		if e, ok := errors.AsType[*gtfsrt.DecodeError](err); !ok || e.Class != ingest.BadGzip || e.Hint == "" {
			t.Errorf("%d bytes of a broken body: %v", len(body), err)
		}
	}
}
