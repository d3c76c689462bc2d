package proxyagent

import "time"

// pace decides when to sync: at once after a quiet time, otherwise a pause after the last sync, and later and later after failures. It reads no
// clock. The zero value with a pause is ready.
type pace struct {
	pause, longest time.Duration

	wanted   bool
	earliest time.Time
	failures int
	timer    *time.Timer
}

// want notes that there is work, and reports whether there was none before.
func (p *pace) want(now time.Time) bool {
	if p.wanted {
		return false
	}
	p.wanted = true
	p.arm(now)
	return true
}

// done notes the end of a sync.
func (p *pace) done(now time.Time, failed bool) {
	p.wanted = failed
	wait := p.pause
	if failed {
		wait = p.backoff()
		p.failures++
	} else {
		p.failures = 0
	}
	p.earliest = now.Add(wait)
	if failed {
		p.arm(now)
	}
}

// backoff doubles from one second on.
func (p *pace) backoff() time.Duration {
	const first = time.Second
	return max(p.pause, min(p.longest, first<<min(p.failures, 10)))
}

func (p *pace) arm(now time.Time) {
	wait := max(0, p.earliest.Sub(now))
	if p.timer == nil {
		p.timer = time.NewTimer(wait)
		return
	}
	p.timer.Reset(wait)
}

// due fires when it is time.
func (p *pace) due() <-chan time.Time {
	if p.timer == nil {
		return nil
	}
	return p.timer.C
}
