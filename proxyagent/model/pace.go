package model

import "time"

// Pace is when everything was last compared with the kernel, and the shorter of the last two
// durations: one may be long because the agent lacked the processor, and would delay the next
// comparison a hundredfold. The zero value has no comparison, and is due.
type Pace struct {
	at         time.Time
	took, last time.Duration
}

// After is the Pace after one more comparison. The first one alone does not delay the next.
func (p Pace) After(at time.Time, took time.Duration) Pace {
	return Pace{at: at, took: min(took, p.last), last: took}
}

// Due reports whether a period has passed, and parts times the duration of a comparison.
func (p Pace) Due(now time.Time, period time.Duration, parts int) bool {
	return now.Sub(p.at) >= max(period, time.Duration(parts)*p.took)
}

// DueAfter is Due for a comparison after a hint, which takes a tenth of the time if other programs
// change rules all the time, or without a hint once in a period, for at most a 300th.
func (p Pace) DueAfter(hint bool, now time.Time, period time.Duration) bool {
	if hint {
		return p.Due(now, 0, 10)
	}
	return p.Due(now, period, 300)
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
