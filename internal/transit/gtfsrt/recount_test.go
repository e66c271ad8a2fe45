package gtfsrt_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/transit/gtfsrt"
	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// line is one event as text: time, trip, stop, what it says.
func line(time int64, trip, stop, says string) string {
	return fmt.Sprintf("%d %s %s %s", time, trip, stop, says)
}

// recount lists the events of snapshots, one text each. It is a second opinion:
// nested loops over messages that the generated code decoded, with maps and
// formatted texts, sharing nothing with the differ. It knows less of the world:
// every snapshot is newer than the one before, no trip stays away for a day, a
// cancelled trip lists its stops.
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
				stop := strconv.FormatUint(uint64(s.GetStopSequence()), 10)
				if s.StopSequence == nil {
					nth[s.GetStopId()]++
					stop = fmt.Sprintf("%s@%d", s.GetStopId(), nth[s.GetStopId()])
				}
				key := trip + "#" + stop
				says, timed := "", false
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
				case a.Time == nil:
					says = fmt.Sprintf("%d -", a.GetDelay())
				default:
					says, timed = fmt.Sprintf("%d %d", a.GetDelay(), a.GetTime()), true
				}
				switch {
				case says == "":
				case !arrivals:
					lines[key] = line(int64(at), trip, stop, says)
					keys[key] = fmt.Sprintf("%s %d", says, u.GetTimestamp())
				case timed:
					lines[key] = line(a.GetTime(), trip, stop, says)
					due[key] = uint64(a.GetTime())
				default:
					lines[key] = ""
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
			if l != "" && due[key] <= now && said[key] == "" {
				said[key] = l
				out = append(out, l)
			}
		}
	}
	slices.Sort(out)
	return out
}

// text gives an event of the differ as line does, without the trip's start_time
// and the count of a stop without sequence, which no record carries.
func text(e gtfsrt.Event) string {
	p := e.Prediction
	stop := string(p.StopID)
	if p.HasStopSequence {
		stop = strconv.FormatInt(p.StopSequence, 10)
	}
	says := p.Status.String()
	switch {
	case p.HasDelay() && p.PredictedTime == event.NoTime:
		says = fmt.Sprintf("%d -", p.DelayS)
	case p.HasDelay():
		says = fmt.Sprintf("%d %d", p.DelayS, p.PredictedTime/1000)
	case p.Status == event.Unmatched:
		says = fmt.Sprintf("unmatched %d", p.PredictedTime/1000)
	}
	return line(e.Time/1000, strings.TrimPrefix(string(p.TripID), "f:")+"|"+string(p.StartDate), strings.TrimPrefix(stop, "f:"), says)
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
