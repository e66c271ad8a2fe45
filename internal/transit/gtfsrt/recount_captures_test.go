//go:build captures

package gtfsrt_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// capture reads a folder's messages in header-time order, and their bytes.
func capture(t *testing.T, pattern string) (messages []*pb.FeedMessage, bodies [][]byte) {
	t.Helper()
	root := os.Getenv("PEIL_CAPTURES")
	if root == "" {
		root = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
	if err != nil || len(names) == 0 {
		t.Fatalf("no captures %s below %s (%v): set PEIL_CAPTURES to their folder", pattern, root, err)
	}
	type file struct {
		message *pb.FeedMessage
		body    []byte
	}
	var files []file
	for _, name := range names {
		body, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".gz") {
			body = gunzip(t, body)
		}
		m := new(pb.FeedMessage)
		if body[0] == '{' {
			err = protojson.UnmarshalOptions{AllowPartial: true, DiscardUnknown: true}.Unmarshal(body, m)
		} else {
			err = proto.UnmarshalOptions{AllowPartial: true}.Unmarshal(body, m)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		files = append(files, file{m, body})
	}
	slices.SortStableFunc(files, func(a, b file) int {
		return int(int64(a.message.GetHeader().GetTimestamp()) - int64(b.message.GetHeader().GetTimestamp()))
	})
	for _, f := range files {
		messages, bodies = append(messages, f.message), append(bodies, f.body)
	}
	return messages, bodies
}

func gunzip(t *testing.T, body []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// diffAll lists the events of a capture by the differ, one text each.
func diffAll(t *testing.T, bodies [][]byte, emit gtfsrt.Emit) ([]string, []event.Prediction) {
	t.Helper()
	d, err := gtfsrt.NewDiffer(gtfsrt.Config{Feed: "f", Emit: emit}, none)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{}
	var all []event.Prediction
	for _, body := range bodies {
		s, err := gtfsrt.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		delta := d.Diff(s, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).UnixMilli())
		for i, e := range delta.Events {
			if i > 0 && delta.Events[i-1].Time > e.Time {
				t.Fatalf("events out of order: %d after %d", e.Time, delta.Events[i-1].Time)
			}
			p := e.Prediction
			if p == nil {
				continue
			}
			all = append(all, *p)
			lines = append(lines, text(e))
		}
	}
	slices.Sort(lines)
	return lines, all
}

// TestRecountOtherReading counts the figures of the other reading, so that the
// explanation of the difference is one that was run.
func TestRecountOtherReading(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern string
		want    int
	}{
		{"us-nyct-subway-2024/ace-rush-80min/*.gz", 70_001},
		{"nz-auckland-2016/*.json.gz", 1_715},
		{"us-soundtransit-2023/*.json", 1_304},
		{"be-nmbs-2015/*_trip_updates.pb", 5_779},
	} {
		t.Run(test.pattern, func(t *testing.T) {
			t.Parallel()
			messages, _ := capture(t, test.pattern)
			said, got := map[string]string{}, 0
			for _, m := range messages {
				for _, e := range m.GetEntity() {
					u := e.GetTripUpdate()
					nth := map[string]int{}
					for _, s := range u.GetStopTimeUpdate() {
						nth[s.GetStopId()]++
						key := fmt.Sprint(u.GetTrip().GetTripId(), "|", u.GetTrip().GetStartDate(), "|", s.GetStopId(), "|")
						if s.StopSequence != nil {
							key += strconv.FormatUint(uint64(s.GetStopSequence()), 10)
						} else {
							key += fmt.Sprint("@", nth[s.GetStopId()])
						}
						canceled := u.GetTrip().GetScheduleRelationship() == pb.TripDescriptor_CANCELED
						a := s.GetArrival()
						if !canceled && (a == nil || a.Delay == nil && a.Time == nil) {
							continue
						}
						now := fmt.Sprint(canceled, a.GetDelay(), a.GetTime(), u.GetTimestamp())
						if said[key] != now {
							said[key] = now
							got++
						}
					}
				}
			}
			if got != test.want {
				t.Fatalf("%d events, want %d", got, test.want)
			}
		})
	}
}

func TestCapturesAgainstRecount(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern               string
		predictions, withDela int
		arrivals              int
	}{
		{"nl-ovapi-tripupdates-2014/*.pb", 59_426, 59_298, 57_021},
		{"us-nyct-subway-2024/ace-rush-80min/*.gz", 69_570, 0, 0},
		{"us-nyct-subway-2024/ace-midnight/*.pb", 13_051, 0, 0},
		{"us-nyct-subway-2024/l-train/*.pb", 784, 784, 0},
		{"nz-auckland-2016/*.json.gz", 1_713, 1_713, 1_635},
		{"us-soundtransit-2023/*.json", 1_294, 168, 0},
		{"us-caltrain-2023/*.pb", 208, 0, 0},
		{"be-nmbs-2015/*_trip_updates.pb", 5_879, 5_747, 0},
		{"us-mbta-enhanced-json/*.gz", 5_006, 0, 0},
	} {
		t.Run(test.pattern, func(t *testing.T) {
			t.Parallel()
			messages, bodies := capture(t, test.pattern)
			for _, emit := range []gtfsrt.Emit{gtfsrt.Predictions, gtfsrt.Arrivals} {
				want := blunt(recount(messages, emit == gtfsrt.Arrivals))
				got, all := diffAll(t, bodies, emit)
				if !slices.Equal(want, got) {
					diff := cmp.Diff(want, got)
					t.Fatalf("%s mismatch (-recount +differ):\n%.2000s", emit, diff)
				}
				delays := 0
				for i := range all {
					if all[i].HasDelay() {
						delays++
					}
				}
				t.Logf("%s: %d events, %d with a delay", emit, len(got), delays)
				if emit == gtfsrt.Predictions && (len(got) != test.predictions || delays != test.withDela) {
					t.Errorf("predictions: %d events, %d with a delay, want %d and %d", len(got), delays, test.predictions, test.withDela)
				}
				if emit == gtfsrt.Arrivals && test.arrivals > 0 && len(got) != test.arrivals {
					t.Errorf("arrivals: %d events, want %d", len(got), test.arrivals)
				}
			}
		})
	}
}

// TestVehiclesAgainstRecount counts positions again: of each vehicle the newest
// one of a snapshot, if anything of it changed and it is not older than the last.
func TestVehiclesAgainstRecount(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern string
		want    int
	}{
		{"us-soundtransit-2023/vehicle_position_*.json", 82},
		{"us-caltrain-2023/*.pb", 14},
		{"us-mbta-enhanced-json/*.gz", 1_844},
		{"us-nyct-subway-2024/l-train/*.pb", 0}, // vehicles without positions
	} {
		t.Run(test.pattern, func(t *testing.T) {
			t.Parallel()
			messages, bodies := capture(t, test.pattern)
			said, dated := map[string]string{}, map[string]uint64{}
			want := 0
			for _, m := range messages {
				lines, newest := map[string]string{}, map[string]uint64{}
				for _, e := range m.GetEntity() {
					v := e.GetVehicle()
					if v.GetPosition() == nil || v.GetPosition().GetLatitude() == 0 {
						continue
					}
					id := v.GetVehicle().GetId()
					at := min(v.GetTimestamp(), m.GetHeader().GetTimestamp())
					if at >= newest[id] {
						newest[id] = at
						lines[id] = fmt.Sprint(v.GetTrip().GetTripId(), v.GetTrip().GetRouteId(), v.GetStopId(), v.CurrentStatus, v.OccupancyStatus, v.GetPosition(), v.GetTimestamp())
					}
				}
				for id, l := range lines {
					if said[id] != l && newest[id] >= dated[id] {
						said[id], dated[id] = l, newest[id]
						want++
					}
				}
			}
			b := newBench(t, gtfsrt.Predictions)
			got := 0
			for i := range bodies {
				events, _ := b.poll(messages[i])
				for _, e := range events {
					if e.Position != nil {
						got++
					}
				}
			}
			if got != want || got != test.want {
				t.Errorf("%d positions, the recount has %d, want %d", got, want, test.want)
			}
		})
	}
}
