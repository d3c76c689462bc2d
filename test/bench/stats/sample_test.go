package stats

import (
	"math"
	"testing"
)

func TestSample(t *testing.T) {
	for name, tc := range map[string]struct {
		sample              Sample
		median, p90, spread float64
		wantText            string
	}{
		"one value has no spread":          {Sample{7}, 7, 7, 0, "7.00"},
		"odd number":                       {Sample{3, 1, 2}, 2, 3, 0.5, "2.00 ±50%"},
		"even number":                      {Sample{100, 120, 80, 110}, 105, 120, 25.0 / 105, "105 ±24%"},
		"an outlier moves the spread only": {Sample{1000, 1000, 1000, 1000, 4000}, 1000, 4000, 3, "1,000 ±300%"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.sample.Median(); got != tc.median {
				t.Errorf("median %v, want %v", got, tc.median)
			}
			if got := tc.sample.Quantile(0.9); got != tc.p90 {
				t.Errorf("90 %% %v, want %v", got, tc.p90)
			}
			if got := tc.sample.Spread(); math.Abs(got-tc.spread) > 1e-9 {
				t.Errorf("spread %v, want %v", got, tc.spread)
			}
			if got := tc.sample.String(); got != tc.wantText {
				t.Errorf("text %q, want %q", got, tc.wantText)
			}
		})
	}
}

func TestEmptySampleHasNothingToSay(t *testing.T) {
	var s Sample
	if got := s.String(); got != "-" {
		t.Errorf("text %q, want a dash", got)
	}
	for _, v := range []float64{s.Median(), s.Quantile(0.5), s.Spread()} {
		if !math.IsNaN(v) {
			t.Errorf("got %v, want NaN", v)
		}
	}
}

func TestOverComparesRoundByRound(t *testing.T) {
	got := Sample{10, 40}.Over(Sample{5, 10})
	if len(got) != 2 || got[0] != 2 || got[1] != 4 {
		t.Errorf("got %v, want [2 4]", got)
	}
}

func TestQuantileTakesTheSmallestValueThatSuffices(t *testing.T) {
	var s Sample
	for i := range 100 {
		s = append(s, float64(i+1))
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := s.Quantile(q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.004: "0.00", 0.5: "0.50", 9.994: "9.99", 9.999: "10.0", 12.34: "12.3", 99.96: "100", 123.4: "123",
		999.6: "1,000", 12345.6: "12,346", 1234567: "1,234,567", -1234: "-1,234",
	} {
		if got := Number(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}
