// Package event holds the records of the topics: their types, a strict decoder
// with reason codes for what it refuses, and their encoder.
//
// # Format
//
// A value is one JSON object in UTF-8 of at most [ValueMax] bytes. The fields in
// their order, which is that of the encoder and of precedence among faults:
//
//	prediction  feed, trip_id, start_date, stop_sequence, stop_id, station_id,
//	            line_id, operator, delay_s, status, predicted_time, timestamp
//	position    feed, vehicle_id, trip_id, stop_id, line_id, operator, latitude,
//	            longitude, bearing, speed_mps, current_status, occupancy, timestamp
//	marker      feed, timestamp
//
// Required are feed, trip_id, timestamp, and delay_s or a status; feed,
// vehicle_id, latitude, longitude and timestamp; feed and timestamp. A field that
// is null is absent. Unknown fields are ignored. Names compare after unescaping.
//
// # Invariants
//
// I1. Decoding is a pure function of the value: what a decoder read before, and
// what it has learnt, changes its speed and nothing else.
//
// I2. A value is accepted only as a whole: exactly one JSON object, strict in
// syntax, UTF-8 and surrogates, with no name twice in any object at any depth,
// nested at most 10,000 deep, with nothing but white space around it. Any breach
// is [BadJSON], which goes before every other reason but [TooLarge].
//
// I3. The reason of a value with several faults is fixed: [TooLarge], [BadJSON],
// [MissingField], [BadID], [BadValue], [BadPosition], in this order, and among
// faults of one reason the field that stands first above. A delay beside a status
// is a fault of delay_s. [JudgeTime] and [JudgeClose] come after all of these. A
// marker knows one reason, [BadMarker].
//
// I4. An id (feed, trip_id, vehicle_id, stop_id, station_id, line_id, operator) has
// 1 to [IDMax] bytes after unescaping and no control character (C0, DEL, C1), or
// it is [BadID]. The same rule holds for current_status and occupancy, and for
// start_date, which may also be empty; their fault is [BadValue].
//
// I5. Numbers are what they say: delay_s and stop_sequence are digits without
// fraction or exponent, |delay_s| <= [DelayMax], stop_sequence 0 to 2^31-1;
// coordinates lie within ±90 and ±180 and are not both zero, or it is
// [BadPosition]; bearing and speed_mps are finite.
//
// I6. An instant is RFC 3339, strictly (see [ParseTime]), and is cut to
// milliseconds towards the past, below 1970 too.
//
// I7. Whatever the decoder accepts, the encoder writes so that it decodes to the
// same record.
//
// I8. An accepted record costs no allocation, but for a coordinate, bearing or
// speed written with more than 32 bytes. Work and scratch memory are bounded by
// the size of the value (times its logarithm), whatever it holds.
//
// # Ownership
//
// A [Decoder] belongs to one goroutine. The slices of a decoded record view the
// value or the decoder's scratch: they are valid until the decoder's next call and
// as long as the value is not changed. The encoders keep nothing.
package event
