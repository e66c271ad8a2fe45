package gtfsrt

import "iter"

// Reason says why something of a snapshot was not used, or is odd. The words are
// part of logs and metrics.
type Reason uint8

// The reasons.
const (
	// EntityWithoutID: the entity is rejected, the others count.
	EntityWithoutID Reason = iota
	// EntityDeleted: is_deleted in a full dataset means nothing.
	EntityDeleted
	// TripWithoutID: a trip update, or a cancellation, of nobody knows what.
	TripWithoutID
	// StopWithoutIdentity: neither stop_sequence nor stop_id.
	StopWithoutIdentity
	// StopsOverBound: more stops in one trip than are remembered.
	StopsOverBound
	// BadID: an id that no record may carry: too long, a control character, or
	// bytes that are no UTF-8.
	BadID
	// DuplicateEntity: a further update of the same trip, or position of the
	// same vehicle, in one snapshot.
	DuplicateEntity
	// DelayImplausible: more than a day.
	DelayImplausible
	// TimeImplausible: outside of the years 2000 to 2100.
	TimeImplausible
	// TimeUnitSuspect: implausible in seconds, plausible in milliseconds.
	TimeUnitSuspect
	// HeaderMissing: no usable header time; the time of the fetch serves.
	HeaderMissing
	// HeaderInFuture: the header time lies too far after the fetch; the time of
	// the fetch serves.
	HeaderInFuture
	// FeedUnchanged: the header time is that of the last snapshot of its source.
	FeedUnchanged
	// FeedOutOfOrder: the header time is older than that of the last snapshot.
	FeedOutOfOrder
	// ArrivalCorrected: a new value for an arrival that was published.
	ArrivalCorrected
	// VehicleWithoutID: neither id nor label nor entity id.
	VehicleWithoutID
	// VehicleOutOfOrder: older than what was published of this vehicle.
	VehicleOutOfOrder
	// PositionIncomplete: a position without latitude or longitude.
	PositionIncomplete
	// PositionMissing: a vehicle without a position.
	PositionMissing
	// PositionBad: (0, 0), out of range, or not a number.
	PositionBad
	// MemoryOverBound: forgotten early, because there is too much to remember.
	MemoryOverBound
	reasons
)

// String gives the reason in snake case.
func (r Reason) String() string {
	names := [reasons]string{
		EntityWithoutID: "entity_without_id", EntityDeleted: "entity_deleted",
		TripWithoutID: "trip_without_id", StopWithoutIdentity: "stop_without_identity", StopsOverBound: "stops_over_bound",
		BadID: "bad_id", DuplicateEntity: "duplicate_entity",
		DelayImplausible: "delay_implausible", TimeImplausible: "time_implausible", TimeUnitSuspect: "time_unit_suspect",
		HeaderMissing: "header_missing", HeaderInFuture: "header_in_future",
		FeedUnchanged: "feed_unchanged", FeedOutOfOrder: "feed_out_of_order", ArrivalCorrected: "arrival_corrected",
		VehicleWithoutID: "vehicle_without_id", VehicleOutOfOrder: "vehicle_out_of_order",
		PositionIncomplete: "position_incomplete", PositionMissing: "position_missing", PositionBad: "position_bad",
		MemoryOverBound: "memory_over_bound",
	}
	if r < reasons {
		return names[r]
	}
	return "invalid"
}

// Tally counts by reason. The zero value is empty.
type Tally [reasons]int

// Add adds another tally.
func (t *Tally) Add(other *Tally) {
	for r, n := range other {
		t[r] += n
	}
}

// All yields the reasons that occurred, in a fixed order.
func (t *Tally) All() iter.Seq2[Reason, int] {
	return func(yield func(Reason, int) bool) {
		for r, n := range t {
			if n > 0 && !yield(Reason(r), n) {
				return
			}
		}
	}
}
