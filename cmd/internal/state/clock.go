package state

import "time"

// TimeOfDay turns ns of the event loop's clock, which shows now at the time of day at, into a time
// of day: the zero one for 0, which is never.
func TimeOfDay(ns, now int64, at time.Time) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return at.Add(time.Duration(ns - now))
}
