package proxyagent

import (
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// schedule decides when the next round is: at once after a quiet time, otherwise a pause after the
// last one. It reads no clock. The zero value with a pause is ready.
type schedule struct {
	pause time.Duration

	earliest time.Time // after the last round and its pause
	next     time.Time // zero when nothing is to be done
	timer    *time.Timer
}

// want schedules a round as early as the pause allows.
func (s *schedule) want(now time.Time) { s.at(now, model.Later(now, s.earliest)) }

// again schedules a round at a certain time; earlier work comes first.
func (s *schedule) again(now, then time.Time) { s.at(now, model.Later(then, s.earliest)) }

// done records the end of a round.
func (s *schedule) done(now time.Time) {
	s.next = time.Time{}
	s.earliest = now.Add(s.pause)
}

// due fires when it is time.
func (s *schedule) due() <-chan time.Time {
	if s.timer == nil {
		return nil
	}
	return s.timer.C
}

func (s *schedule) at(now, then time.Time) {
	if !s.next.IsZero() && !then.Before(s.next) {
		return
	}
	s.next = then
	if s.timer == nil {
		s.timer = time.NewTimer(then.Sub(now))
		return
	}
	s.timer.Reset(then.Sub(now))
}
