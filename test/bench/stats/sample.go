// Package stats condenses repeated measurements into a middle and how far the rest lies from it.
// All is a pure function of its input. Start with Sample.
package stats

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Sample is one quantity measured several times, in any order. The empty Sample has no middle: its
// methods return NaN.
type Sample []float64

// Median is the value in the middle, or half way between the two in the middle.
func (s Sample) Median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// Quantile is the smallest value that a share q of all values does not exceed, q from 0 to 1.
func (s Sample) Quantile(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// Spread is the largest distance of a value from the median, as a share of the median: 0.1 means
// that all values lie within 10 % of it.
func (s Sample) Spread() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	median := s.Median()
	return max(slices.Max(s)-median, median-slices.Min(s)) / median
}

// Over divides two samples of equal length value by value: what was measured in the same round is
// compared with each other and with nothing else.
func (s Sample) Over(o Sample) Sample {
	var out Sample
	for i := range min(len(s), len(o)) {
		out = append(out, s[i]/o[i])
	}
	return out
}

// Range returns the median and the ends, "0.79 (0.69 to 1.17)", of values taken round by round.
func (s Sample) Range() string {
	if len(s) < 2 {
		return Number(s.Median())
	}
	return fmt.Sprintf("%s (%s to %s)", Number(s.Median()), Number(s.Quantile(0)), Number(s.Quantile(1)))
}

// Tail returns the median and the 99th percentile, "7.39 / 23.1".
func (s Sample) Tail() string { return Number(s.Median()) + " / " + Number(s.Quantile(0.99)) }

// String returns median and spread, "930 ±4%". A single measurement has no spread.
func (s Sample) String() string {
	if len(s) < 2 {
		return Number(s.Median())
	}
	return fmt.Sprintf("%s ±%.0f%%", Number(s.Median()), 100*s.Spread())
}

// Number writes a value with three significant digits or all before the point, thousands apart.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case a >= 999.5:
		return thousands(int64(math.Round(v)))
	case a >= 99.95 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case a >= 9.995:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// Count writes what was counted, thousands apart.
func Count(n int) string { return thousands(int64(n)) }

// MiB writes a number of bytes.
func MiB(bytes int64) string { return Number(float64(bytes) / (1 << 20)) }

// Seconds writes a time.
func Seconds(d time.Duration) string { return Number(d.Seconds()) }

func thousands(n int64) string {
	if n < 0 {
		return "-" + thousands(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
