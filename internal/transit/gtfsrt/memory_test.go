package gtfsrt

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/peil-stream/peil/event"
)

var unexported = cmp.AllowUnexported(tripMemory{}, stopMemory{}, stopID{}, observation{}, vehicleMemory{}, sourceMemory{})

func drawStopMemory(t *rapid.T) stopMemory {
	s := stopMemory{published: rapid.Bool().Draw(t, "published"), stop: rapid.String().Draw(t, "stop")}
	if rapid.Bool().Draw(t, "sequence") {
		s.id = stopID{sequence: rapid.Int64Range(0, 1<<31-1).Draw(t, "n")}
	} else {
		s.id = stopID{sequence: -1, stop: rapid.String().Draw(t, "id"), nth: rapid.IntRange(0, 99).Draw(t, "nth")}
	}
	s.status = event.Status(rapid.Uint8Range(0, uint8(event.Unknown)).Draw(t, "status"))
	if s.hasDelay = rapid.Bool().Draw(t, "has delay"); s.hasDelay {
		s.delay = rapid.Int32Range(-event.DelayMax, event.DelayMax).Draw(t, "delay")
	}
	if s.hasTime = rapid.Bool().Draw(t, "has time"); s.hasTime {
		s.time = rapid.Int64().Draw(t, "time")
	}
	s.timestamp = rapid.Int64().Draw(t, "timestamp")
	return s
}

func TestMemoryRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		trip := &tripMemory{
			seen: rapid.Int64().Draw(t, "seen"), route: rapid.String().Draw(t, "route"), realtime: rapid.String().Draw(t, "realtime"),
			stops: rapid.SliceOfN(rapid.Custom(drawStopMemory), 0, 5).Draw(t, "stops"),
		}
		gotTrip, err := decodeTrip(trip.encode()) // which sorts the stops
		if diff := cmp.Diff(trip, gotTrip, unexported); err != nil || diff != "" {
			t.Fatalf("trip: %v, mismatch (-want +got):\n%s", err, diff)
		}
		vehicle := &vehicleMemory{seen: trip.seen, time: rapid.Int64().Draw(t, "time"), fields: rapid.SliceOf(rapid.Byte()).Draw(t, "fields")}
		gotVehicle, err := decodeVehicle(vehicle.encode())
		if err != nil || gotVehicle.seen != vehicle.seen || gotVehicle.time != vehicle.time || string(gotVehicle.fields) != string(vehicle.fields) {
			t.Fatalf("vehicle: %v, %+v is not %+v", err, gotVehicle, vehicle)
		}
		source := &sourceMemory{
			emit: Emit(rapid.IntRange(0, 1).Draw(t, "emit")), order: rapid.Int64().Draw(t, "order"),
			header: rapid.Int64().Draw(t, "header"), latest: rapid.Int64().Draw(t, "latest"),
		}
		gotSource, err := decodeSource(source.encode())
		if diff := cmp.Diff(source, gotSource, unexported); err != nil || diff != "" {
			t.Fatalf("source: %v, mismatch (-want +got):\n%s", err, diff)
		}
	})
}

func TestTripKeysAreApart(t *testing.T) {
	t.Parallel()
	part := rapid.StringOf(rapid.SampledFrom([]rune("|%7C25a")))
	rapid.Check(t, func(t *rapid.T) {
		a := [3]string{part.Draw(t, "id"), part.Draw(t, "date"), part.Draw(t, "time")}
		b := [3]string{part.Draw(t, "id"), part.Draw(t, "date"), part.Draw(t, "time")}
		key := string(appendTripKey(nil, a[0], a[1], a[2]))
		if (key == string(appendTripKey(nil, b[0], b[1], b[2]))) != (a == b) {
			t.Fatalf("%q and %q", a, b)
		}
		if id, date, ok := splitTripKey(key); !ok || id != a[0] || date != a[1] {
			t.Fatalf("%q splits into %q and %q, %v", key, id, date, ok)
		}
	})
}

// FuzzMemory holds that no value breaks a reader, and that what is read is written
// so that it reads the same.
func FuzzMemory(f *testing.F) {
	f.Add((&tripMemory{seen: 5, stops: []stopMemory{{id: theTrip(), stop: "x"}, {id: stopID{sequence: 3}, observation: observation{hasTime: true, time: 9}}}}).encode())
	f.Add((&sourceMemory{order: NoTime, header: 3}).encode())
	f.Add([]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, value []byte) {
		if m, err := decodeTrip(value); err == nil {
			again, err := decodeTrip(m.encode())
			if diff := cmp.Diff(m, again, unexported); err != nil || diff != "" {
				t.Fatalf("trip: %v\n%s", err, diff)
			}
		}
		if m, err := decodeVehicle(value); err == nil {
			again, err := decodeVehicle(m.encode())
			if diff := cmp.Diff(m, again, unexported); err != nil || diff != "" {
				t.Fatalf("vehicle: %v\n%s", err, diff)
			}
		}
		if m, err := decodeSource(value); err == nil {
			again, err := decodeSource(m.encode())
			if diff := cmp.Diff(m, again, unexported); err != nil || diff != "" {
				t.Fatalf("source: %v\n%s", err, diff)
			}
		}
	})
}
