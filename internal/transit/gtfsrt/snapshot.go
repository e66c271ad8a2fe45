package gtfsrt

import (
	"github.com/peil-stream/peil/event"
	"github.com/peil-stream/peil/internal/transit/gtfsrt/pb"
)

// NoTime is the instant of a time that is absent.
const NoTime = event.NoTime

// Kind is what the entities of a feed are about. With the feed's name it makes a
// source: snapshots of one source come in header-time order.
type Kind uint8

// The kinds of entities. Alerts are read by nobody here.
const (
	TripUpdates Kind = iota
	VehiclePositions
	Alerts
	kinds
)

// String gives the kind as it stands in logs and in the memory's keys.
func (k Kind) String() string {
	switch k {
	case TripUpdates:
		return "trip_updates"
	case VehiclePositions:
		return "vehicle_positions"
	case Alerts:
		return "alerts"
	default:
		return "invalid"
	}
}

// Snapshot is one FeedMessage, cut to what is used here. Texts are as the feed
// has them: not scoped and not checked.
type Snapshot struct {
	Head
	Trips    []TripUpdate
	Vehicles []Vehicle
	// Tally counts what decoding left out.
	Tally Tally
	// Assume is the kind of a snapshot without any entity, which only the caller
	// can know. The zero value is TripUpdates.
	Assume Kind
}

// Head is what can be known of a snapshot without reading its entities.
type Head struct {
	// Version is gtfs_realtime_version, or empty where it is missing.
	Version string
	// Header is the header's timestamp in Unix milliseconds, or [NoTime].
	Header int64
	// Entities counts all entities, whatever they hold.
	Entities int
	// count of entities by kind, usable or not.
	count [kinds]int
}

// Count gives the number of entities of a kind, usable or not. An entity may be
// of several kinds.
func (h *Head) Count(k Kind) int { return h.count[k] }

// Has says whether the snapshot speaks for the kind: it has such entities, or it
// has none at all and the kind is the one to assume.
func (h *Head) Has(k, assume Kind) bool {
	if h.count == [kinds]int{} {
		return k == assume
	}
	return h.count[k] > 0
}

// TripUpdate is one trip update.
type TripUpdate struct {
	TripID, StartDate, StartTime, RouteID string
	// Realtime is OVapi's OWNER:LINE:JOURNEY, or empty.
	Realtime string
	Relation pb.TripDescriptor_ScheduleRelationship
	// Timestamp in Unix seconds as sent; 0 where there is none.
	Timestamp uint64
	Stops     []StopUpdate
}

// StopUpdate is what a trip update says about one stop.
type StopUpdate struct {
	StopID      string
	Sequence    uint32
	HasSequence bool
	Relation    pb.TripUpdate_StopTimeUpdate_ScheduleRelationship
	Arrival     StopEvent
	// Departure is only looked at for its plausibility.
	Departure StopEvent
}

// StopEvent is an arrival or departure as sent. The zero value is an absent one,
// and equal to one that is there but empty.
type StopEvent struct {
	Delay, Time       int64 // seconds; Unix seconds
	HasDelay, HasTime bool
}

// Vehicle is one vehicle position. An incomplete position is left out when the
// snapshot is decoded.
type Vehicle struct {
	EntityID, ID, Label       string
	TripID, RouteID, Realtime string
	StopID                    string
	CurrentStatus, Occupancy  string
	HasPosition               bool
	Latitude, Longitude       float64
	Bearing, SpeedMPS         float64
	HasBearing, HasSpeed      bool
	// Timestamp in Unix seconds as sent; 0 where there is none.
	Timestamp uint64
}
