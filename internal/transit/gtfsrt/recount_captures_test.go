//go:build captures

package gtfsrt_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// The recount is a second opinion on the captures: nested loops over messages
// that the generated code decoded, with maps and formatted texts, sharing nothing
// with the differ. It knows only what the captures hold: every snapshot of a
// source is newer than the one before, and no trip stays away for a day.
//
// Some figures were first counted by another reading of the rules, so that they
// differ from these: entity by entity, so that of two entities for one trip in one
// snapshot both gave an event each time (70,001 for New York, 1,715 for Auckland,
// 1,304 for Seattle), and with a stop's identity being trip_id, start_date,
// stop_sequence and stop_id, without the start_time (5,779 for Belgium). By the
// rule the last entity wins per stop, or two entities that disagree would be news
// with every poll for ever; and the start_time belongs to the identity of a trip.
// That gives 69,570, 1,713, 1,294 and 5,879. [TestRecountOtherReading] counts the
// first figures too.
//
// An update that says nothing about the arrival at a stop does not take back what
// an earlier entity of the snapshot said: Auckland has one such pair, and counts
// 1,635 arrivals by it.

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

// line is one event as text: time, trip, stop, what it says.
func line(time uint64, trip, stop, says string) string {
	return fmt.Sprintf("%d %s %s %s", time, trip, stop, says)
}

// recount lists the events of a capture, one text each.
func recount(messages []*pb.FeedMessage, arrivals bool) []string {
	out := []string{}
	said := map[string]string{}    // by trip and stop: what was published last
	waiting := map[string]string{} // the whole event of an arrival that is to come
	due := map[string]uint64{}     // and its time
	for _, m := range messages {
		now := m.GetHeader().GetTimestamp()
		lines, keys := map[string]string{}, map[string]string{} // this snapshot's last word
		for _, e := range m.GetEntity() {
			u := e.GetTripUpdate()
			if u == nil {
				continue
			}
			trip := u.GetTrip().GetTripId() + "|" + u.GetTrip().GetStartDate() + "|" + u.GetTrip().GetStartTime()
			at := now
			if u.Timestamp != nil {
				at = min(now, u.GetTimestamp())
			}
			nth := map[string]int{}
			for _, s := range u.GetStopTimeUpdate() {
				stop := fmt.Sprintf("%d", s.GetStopSequence())
				if s.StopSequence == nil {
					nth[s.GetStopId()]++
					stop = fmt.Sprintf("%s@%d", s.GetStopId(), nth[s.GetStopId()])
				}
				key := trip + "#" + stop
				says := ""
				a := s.GetArrival()
				switch {
				case u.GetTrip().GetScheduleRelationship() == pb.TripDescriptor_CANCELED:
					says = "canceled"
				case s.GetScheduleRelationship() == pb.TripUpdate_StopTimeUpdate_SKIPPED:
					says = "skipped"
				case s.GetScheduleRelationship() == pb.TripUpdate_StopTimeUpdate_NO_DATA:
					says = "no_data"
				case a == nil || a.Delay == nil && a.Time == nil:
				case a.Delay == nil:
					says = fmt.Sprintf("unmatched %d", a.GetTime())
				default:
					says = fmt.Sprintf("%d %d", a.GetDelay(), a.GetTime())
				}
				if says == "" {
					continue
				}
				delete(lines, key)
				if arrivals {
					if a != nil && a.Delay != nil && a.Time != nil && !strings.Contains(says, "cancel") {
						lines[key] = line(uint64(a.GetTime()), trip, stop, says)
						due[key] = uint64(a.GetTime())
					}
				} else {
					lines[key] = line(at, trip, stop, says)
					keys[key] = fmt.Sprintf("%s %d", says, u.GetTimestamp())
				}
			}
		}
		if !arrivals {
			for key, l := range lines {
				if said[key] != keys[key] {
					said[key] = keys[key]
					out = append(out, l)
				}
			}
			continue
		}
		maps.Copy(waiting, lines)
		for key, l := range waiting {
			if due[key] <= now && said[key] == "" {
				said[key] = l
				out = append(out, l)
			}
		}
	}
	slices.Sort(out)
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
							key += fmt.Sprint(s.GetStopSequence())
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

// text gives an event of the differ as line does, without the trip's start_time
// and the count of a stop without sequence, which no record carries.
func text(e gtfsrt.Event) string {
	p := e.Prediction
	stop := string(p.StopID)
	if p.HasStopSequence {
		stop = fmt.Sprintf("%d", p.StopSequence)
	}
	says := p.Status.String()
	switch {
	case p.HasDelay():
		says = fmt.Sprintf("%d %d", p.DelayS, p.PredictedTime/1000)
	case p.Status == event.Unmatched:
		says = fmt.Sprintf("unmatched %d", p.PredictedTime/1000)
	}
	return line(uint64(e.Time/1000), strings.TrimPrefix(string(p.TripID), "f:")+"|"+string(p.StartDate), strings.TrimPrefix(stop, "f:"), says)
}

// blunt cuts from a line of the recount what the records do not carry.
func blunt(lines []string) []string {
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		head, rest, _ := strings.Cut(l, "|")
		date, rest, _ := strings.Cut(rest, "|")
		_, rest, _ = strings.Cut(rest, " ")
		stop, says, _ := strings.Cut(rest, " ")
		stop, _, _ = strings.Cut(stop, "@")
		out = append(out, head+"|"+date+" "+stop+" "+says)
	}
	slices.Sort(out)
	return out
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
				if diff := cmp.Diff(want, got); diff != "" {
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
