package event_test

import (
	"fmt"

	"github.com/peil-stream/peil/event"
)

func ExampleDecoder_Prediction() {
	var d event.Decoder // reused for every record of a partition
	var p event.Prediction
	for _, value := range []string{
		`{"feed":"nl","trip_id":"nl:GVB_7_120","line_id":"nl:GVB_7","delay_s":143,"timestamp":"2026-11-30T12:03:00Z"}`,
		`{"feed":"nl","trip_id":"nl:GVB_7_121","status":"canceled","timestamp":"2026-11-30T12:03:00Z"}`,
		`{"feed":"nl","trip_id":"nl:GVB_7_122","delay_s":"143","timestamp":"2026-11-30T12:03:00Z"}`,
	} {
		if err := d.Prediction([]byte(value), &p); err != nil {
			fmt.Println("dead letter:", err)
			continue
		}
		fmt.Printf("%s: status %s, delay %v %d s\n", p.TripID, p.Status, p.HasDelay(), p.DelayS)
	}
	// Output:
	// nl:GVB_7_120: status none, delay true 143 s
	// nl:GVB_7_121: status canceled, delay false 0 s
	// dead letter: bad_value: delay_s is not a number: "\"143\""
}

func ExampleAppendPrediction() {
	at, _ := event.ParseTime([]byte("2026-11-30T13:03:00.25+01:00"))
	p := event.Prediction{
		Feed: []byte("nl"), TripID: []byte("nl:GVB_7_120"), StartDate: []byte("20261130"),
		DelayS: -20, PredictedTime: event.NoTime, Timestamp: at,
	}
	fmt.Printf("%s\n", event.PredictionKey(nil, &p))
	fmt.Printf("%s\n", event.AppendPrediction(nil, &p))
	// Output:
	// nl|nl:GVB_7_120|20261130
	// {"feed":"nl","trip_id":"nl:GVB_7_120","start_date":"20261130","delay_s":-20,"timestamp":"2026-11-30T12:03:00.250Z"}
}

func ExampleJudgeTime() {
	const maxSkew = 300_000
	logTime, _ := event.ParseTime([]byte("2026-11-30T12:00:00Z"))
	for _, text := range []string{"2026-11-30T12:05:00Z", "2026-11-30T12:05:01Z", "1970-01-01T00:00:00Z"} {
		at, _ := event.ParseTime([]byte(text))
		if err := event.JudgeTime(at, logTime, maxSkew); err != nil {
			fmt.Println(err.Reason)
			continue
		}
		fmt.Println("accepted")
	}
	// Output:
	// accepted
	// future_event
	// implausible_time
}

// The newest row of a trip is that of the stop it will reach next.
func ExamplePrediction_Tie() {
	now, _ := event.ParseTime([]byte("2026-11-30T12:03:00Z"))
	stops := []event.Prediction{
		{StopSequence: 6, HasStopSequence: true, PredictedTime: now - 60_000, Timestamp: now},
		{StopSequence: 7, HasStopSequence: true, PredictedTime: now + 60_000, Timestamp: now},
		{StopSequence: 8, HasStopSequence: true, PredictedTime: now + 180_000, Timestamp: now},
	}
	newest := &stops[0]
	for i := range stops {
		if stops[i].Tie() > newest.Tie() {
			newest = &stops[i]
		}
	}
	fmt.Println("stop", newest.StopSequence)
	// Output: stop 7
}
