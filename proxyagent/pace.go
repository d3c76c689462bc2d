package proxyagent

import "time"

// pace decides when the next round is: at once after a quiet time, otherwise a pause after the last
// one. It reads no clock. The zero value with a pause is ready.
type pace struct {
	pause time.Duration

	earliest time.Time // after the last round and its pause
	next     time.Time // zero when nothing is to be done
	timer    *time.Timer
}

// want schedules a round as early as the pause allows.
func (p *pace) want(now time.Time) { p.at(now, later(now, p.earliest)) }

// again schedules a round at a certain time; earlier work comes first.
func (p *pace) again(now, then time.Time) { p.at(now, later(then, p.earliest)) }

// done records the end of a round.
func (p *pace) done(now time.Time) {
	p.next = time.Time{}
	p.earliest = now.Add(p.pause)
}

// due fires when it is time.
func (p *pace) due() <-chan time.Time {
	if p.timer == nil {
		return nil
	}
	return p.timer.C
}

func (p *pace) at(now, then time.Time) {
	if !p.next.IsZero() && !then.Before(p.next) {
		return
	}
	p.next = then
	if p.timer == nil {
		p.timer = time.NewTimer(then.Sub(now))
		return
	}
	p.timer.Reset(then.Sub(now))
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
