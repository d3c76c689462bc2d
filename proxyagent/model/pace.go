package model

import "time"

// Pace is when the last comparison of everything with the kernel was, and how long it takes: the shorter one of the last two durations. A single one may be long because the agent did not
// get the processor, and would delay the next comparison a hundredfold. The zero value is of none, and due.
type Pace struct {
	at         time.Time
	took, last time.Duration
}

// After is the Pace after one more comparison. The first one has no second duration and does not delay the next.
func (p Pace) After(at time.Time, took time.Duration) Pace {
	return Pace{at: at, took: min(took, p.last), last: took}
}

// Due reports whether a period has passed, and parts times the duration of a comparison.
func (p Pace) Due(now time.Time, period time.Duration, parts int) bool {
	return now.Sub(p.at) >= max(period, time.Duration(parts)*p.took)
}

// DueAfter is Due for a comparison that something hints at, which takes a tenth of the time where others change rules all the time, or that is made once in a period all the same, which takes
// a three-hundredth at most.
func (p Pace) DueAfter(hint bool, now time.Time, period time.Duration) bool {
	if hint {
		return p.Due(now, 0, 10)
	}
	return p.Due(now, period, 300)
}
