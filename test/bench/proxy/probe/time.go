package probe

import "time"

// Moment is a time on CLOCK_MONOTONIC, which all processes of a machine share.
type Moment time.Duration

// Since is the time from an earlier moment to this one.
func (m Moment) Since(earlier Moment) time.Duration { return time.Duration(m - earlier) }
