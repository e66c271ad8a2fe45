package sink

// IncidentsMax is how many incidents a sink keeps: the newest ones. An older one
// is deleted when a newer one is written, so the table cannot grow without end.
// The newest cold start of each partition is kept beyond it, because verify begins
// where it says.
const IncidentsMax = 10_000

// IncidentColdStart is the kind of the incident that says where a partition began
// to be read without knowledge of what came before (R5). FromOffset is where; the
// last instant in Detail is the watermark that it began with.
const IncidentColdStart = "cold_start"

// Kinds of the incidents that a sink writes by itself.
const (
	// IncidentSealed: a segment came for a window whose segments retention has
	// emptied. It is stored, but not merged.
	IncidentSealed = "sealed"
	// IncidentForeignRow: a final row could not be written, because the row of
	// that key belongs to another topic.
	IncidentForeignRow = "foreign_row"
)
