package soak_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// reading is a value at a time since the start.
type reading struct {
	at    time.Duration
	value float64
}

// curve is what was read of one thing, in the order of time.
type curve []reading

// between are the readings of a part of the time.
func (c curve) between(from, to time.Duration) curve {
	return slices.DeleteFunc(slices.Clone(c), func(r reading) bool { return r.at < from || r.at > to })
}

// median is the value in the middle, zero of none.
func (c curve) median() float64 { return middle(c.values()) }

func (c curve) values() (all []float64) {
	for _, r := range c {
		all = append(all, r.value)
	}
	return all
}

func middle(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(of))[len(of)/2]
}

// rise is by how much the curve rises from its beginning to its end, by the median of the slopes
// between all its readings: a peak here and there, or the teeth of a garbage collector's saw, move
// it little, and a leak moves all of them.
func (c curve) rise() float64 {
	var slopes []float64
	for i, a := range c {
		for _, b := range c[i+1:] {
			if b.at > a.at {
				slopes = append(slopes, (b.value-a.value)/(b.at-a.at).Seconds())
			}
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	return middle(slopes) * (c[len(c)-1].at - c[0].at).Seconds()
}

// unsteady says how the curve rises, empty if it rises by no more than a share of its median, or by
// least. Too few readings to tell are unsteady, too.
func (c curve) unsteady(share, least float64) string {
	const few = 10
	if len(c) < few {
		return fmt.Sprintf("there are only %d readings", len(c))
	}
	if rise, most := c.rise(), max(share*c.median(), least); rise > most {
		return fmt.Sprintf("it rises by %.2f within %s, at a median of %.2f: more than %.2f", rise, (c[len(c)-1].at - c[0].at).Round(time.Second), c.median(), most)
	}
	return ""
}

func TestUnsteady(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	hour := func(of func(at float64) float64) (c curve) { // of the time from 0 to 1
		for i := range 240 {
			c = append(c, reading{time.Duration(i) * 15 * time.Second, of(float64(i) / 240)})
		}
		return c
	}
	saw := func(at float64) float64 { return 100 + 15*math.Mod(at*37, 1) }
	for name, tc := range map[string]struct {
		curve  curve
		steady bool
	}{
		"level":                           {hour(func(float64) float64 { return 100 }), true},
		"noise":                           {hour(func(float64) float64 { return 100 + 20*random.Float64() }), true},
		"a collector's saw":               {hour(saw), true},
		"three peaks, late":               {hour(func(at float64) float64 { return 100 + 300*math.Floor(at+.01) }), true},
		"falling":                         {hour(func(at float64) float64 { return 100 - 30*at }), true},
		"a leak":                          {hour(func(at float64) float64 { return 100 + 10*at }), false},
		"a leak below a saw":              {hour(func(at float64) float64 { return saw(at) + 10*at }), false},
		"a leak in noise":                 {hour(func(at float64) float64 { return 100 + 20*random.Float64() + 10*at }), false},
		"within the bound":                {hour(func(at float64) float64 { return 100 + 3*at }), true},
		"hardly anything read":            {hour(saw)[:9], false},
		"a queue that is empty mostly":    {hour(func(at float64) float64 { return math.Floor(3 * math.Mod(at*29, 1)) }), true},
		"a queue that grows from nothing": {hour(func(at float64) float64 { return math.Floor(40 * at) }), false},
	} {
		if got := tc.curve.unsteady(.05, 4); (got == "") != tc.steady {
			t.Errorf("%s: %q, want steady %t", name, got, tc.steady)
		}
	}
	if got := hour(saw).between(10*time.Minute, 20*time.Minute); len(got) != 41 || got[0].at != 10*time.Minute {
		t.Errorf("%d readings from %s, want 41 from 10m", len(got), got[0].at)
	}
}
