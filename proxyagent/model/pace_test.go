package model

import (
	"testing"
	"time"
)

// TestPace compares neither more often than the period nor for more than its part of the time. A
// single slow comparison, as that of an agent that stood still, does not delay the next.
func TestPace(t *testing.T) {
	start := time.Now()
	for name, tc := range map[string]struct {
		took   []time.Duration
		period time.Duration
		want   time.Duration
	}{
		"it is quick":                {[]time.Duration{time.Millisecond, time.Millisecond}, 2 * time.Second, 2 * time.Second},
		"it takes long":              {[]time.Duration{time.Second, time.Second}, 2 * time.Second, 100 * time.Second},
		"there is no period":         {[]time.Duration{time.Second, time.Second}, 0, 100 * time.Second},
		"the first":                  {[]time.Duration{time.Second}, 2 * time.Second, 2 * time.Second},
		"one that is slow":           {[]time.Duration{time.Millisecond, time.Minute}, 2 * time.Second, 2 * time.Second},
		"two that are slow":          {[]time.Duration{time.Millisecond, time.Minute, time.Second}, 2 * time.Second, 100 * time.Second},
		"they are not slow any more": {[]time.Duration{time.Minute, time.Minute, time.Millisecond}, 2 * time.Second, 2 * time.Second},
	} {
		l := Pace{}
		for _, took := range tc.took {
			l = l.After(start, took)
		}
		if l.Due(start.Add(tc.want-1), tc.period, 100) || !l.Due(start.Add(tc.want), tc.period, 100) {
			t.Errorf("%s: is not due after exactly %s: %+v", name, tc.want, l)
		}
	}
	if !(Pace{}).Due(start, 5*time.Minute, 1000) {
		t.Error("what was never looked at is not due")
	}
	l := Pace{}.After(start, time.Second).After(start, time.Second)
	for hint, want := range map[bool]time.Duration{true: 10 * time.Second, false: 5 * time.Minute} {
		if l.DueAfter(hint, start.Add(want-1), time.Minute) || !l.DueAfter(hint, start.Add(want), time.Minute) {
			t.Errorf("with hint %t it is not due after exactly %s", hint, want)
		}
	}
}
