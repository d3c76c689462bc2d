package proxyagent

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestPauseAfterRounds plays rounds one after the other and looks how long each has to wait.
func TestPauseAfterRounds(t *testing.T) {
	const ok, bad = false, true
	s := time.Second
	for name, tc := range map[string]struct {
		pause, longest time.Duration
		failed         []bool
		want           []time.Duration
	}{
		"success waits the pause":                     {s, 30 * s, []bool{ok, ok}, []time.Duration{s, s}},
		"a short pause":                               {s / 10, 30 * s, []bool{ok}, []time.Duration{s / 10}},
		"failures double up to the longest":           {s, 30 * s, []bool{bad, bad, bad, bad, bad, bad, bad}, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}},
		"success begins anew":                         {s, 30 * s, []bool{bad, bad, ok, bad}, []time.Duration{s, 2 * s, s, s}},
		"never sooner than the pause":                 {5 * s, 30 * s, []bool{bad, bad, bad, bad}, []time.Duration{5 * s, 5 * s, 5 * s, 8 * s}},
		"a pause beyond the longest":                  {time.Minute, 30 * s, []bool{bad, ok}, []time.Duration{time.Minute, time.Minute}},
		"a short pause does not speed up the retries": {s / 100, 30 * s, []bool{bad, bad}, []time.Duration{s, 2 * s}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pace{pause: tc.pause, longest: tc.longest}
				var got []time.Duration
				for _, failed := range tc.failed {
					ended := time.Now()
					p.done(ended, failed)
					if first := p.want(ended); first == failed {
						t.Errorf("after failed=%t there was work already: %t", failed, !first)
					}
					<-p.due()
					got = append(got, time.Since(ended))
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("waited %v, want %v", got, tc.want)
				}
			})
		})
	}
}

// TestManyFailuresDoNotOverflow is about the doubling.
func TestManyFailuresDoNotOverflow(t *testing.T) {
	p := pace{pause: time.Second, longest: 30 * time.Second, failures: 1000}
	if got := p.backoff(); got != 30*time.Second {
		t.Errorf("after 1000 failures it waits %s", got)
	}
}

// TestFirstWorkIsDueAtOnce is about a quiet start, and a quiet time.
func TestFirstWorkIsDueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{pause: time.Second, longest: time.Minute}
		if p.due() != nil {
			t.Error("without work something is due")
		}
		start := time.Now()
		if !p.want(start) || p.want(start) {
			t.Error("only the first to want something is the first")
		}
		<-p.due()
		p.done(time.Now(), false)
		time.Sleep(time.Hour)
		p.want(time.Now())
		<-p.due()
		if took := time.Since(start); took != time.Hour {
			t.Errorf("work after a quiet hour was due %s after the start", took)
		}
	})
}
