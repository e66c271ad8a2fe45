package event

import "testing"

// TestHabitIsLearntFromAcceptedRecords looks at what no result shows: the order
// of fields that the decoder expects next.
func TestHabitIsLearntFromAcceptedRecords(t *testing.T) {
	t.Parallel()
	var d Decoder
	var out Marker
	expected := func() []field {
		var order []field
		for last := unknownField; len(order) < int(fieldCount); {
			next := d.markers.after[last]
			if next.member == "" {
				break
			}
			order = append(order, next.field)
			last = next.field
		}
		return order
	}
	for _, tt := range []struct {
		name, value string
		accepted    bool
		want        []field
	}{
		{"bad JSON", `{"feed":"f","timestamp":"2026-11-30T12:03:00Z"`, false, nil},
		{"bad field", `{"feed":"","timestamp":"2026-11-30T12:03:00Z"}`, false, nil},
		{"one order", `{"feed":"f","timestamp":"2026-11-30T12:03:00Z"}`, true, []field{fFeed, fTimestamp}},
		{"another order, refused", `{"timestamp":"2026-11-30T12:03:00Z","feed":7}`, false, []field{fFeed, fTimestamp}},
		{"one order among unknown fields", `{"a":1,"feed":"f","b":1,"timestamp":"2026-11-30T12:03:00Z"}`, true, []field{fFeed, fTimestamp}},
	} {
		err := d.Marker([]byte(tt.value), &out)
		if accepted := err == nil; accepted != tt.accepted {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got := expected(); len(got) != len(tt.want) || len(got) > 0 && (got[0] != tt.want[0] || got[1] != tt.want[1]) {
			t.Fatalf("%s: the decoder expects %v, want %v", tt.name, got, tt.want)
		}
	}
	value := []byte(`{"timestamp":"2026-11-30T12:03:00Z","feed":"f"}`)
	if err := d.Marker(value, &out); err != nil || d.markers.after[unknownField].field != fTimestamp {
		t.Fatalf("another order, accepted (%v): the first field expected is %v, want timestamp", err, d.markers.after[unknownField].field)
	}
}
