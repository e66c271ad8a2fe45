package event

// JudgeTime applies rule R8 to the event time t of a prediction, position or
// heartbeat: both sides of the comparison are in the log, so a replay decides
// the same. All arguments are in milliseconds, logTime being the log's own
// timestamp of the record, negative where it has none. The first that applies of
// [NoTimestamp], [ImplausibleTime] and [FutureEvent] is returned, or nil.
func JudgeTime(t, logTime, maxSkew int64) *Error {
	switch {
	case logTime < 0:
		return &Error{Reason: NoTimestamp, Detail: "the log has no timestamp for the record"}
	case t < TimeMin:
		return &Error{
			Reason: ImplausibleTime, Field: "timestamp",
			Detail: "timestamp " + timeText(t) + " lies before 2000-01-01",
		}
	case t-logTime > maxSkew: // both are not negative here, so it cannot overflow
		return &Error{
			Reason: FutureEvent, Field: "timestamp",
			Detail: "timestamp " + timeText(t) + " lies too far after the log's own time " + timeText(logTime),
		}
	}
	return nil
}

// JudgeClose applies R8 to the time t of a close marker. Its bound is the
// greater of maxSkew and windowSize, because it is the end of the window that
// holds the last event and so may lie up to one window ahead of it.
func JudgeClose(t, logTime, maxSkew, windowSize int64) *Error {
	return JudgeTime(t, logTime, max(maxSkew, windowSize))
}

func timeText(ms int64) string {
	var buf [40]byte
	return string(AppendTime(buf[:0], ms))
}
