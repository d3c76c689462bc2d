package stats

import (
	"math"
	"testing"
)

func TestSample(t *testing.T) {
	for _, tc := range []struct {
		sample              Sample
		median, p90, spread float64
		text, ends          string
	}{
		{Sample{7}, 7, 7, 0, "7.00", "7.00"},
		{Sample{3, 1, 2}, 2, 3, 0.5, "2.00 ±50%", "2.00 (1.00 to 3.00)"},
		{Sample{100, 120, 80, 110}, 105, 120, 25.0 / 105, "105 ±24%", "105 (80.0 to 120)"},
		{Sample{1000, 1000, 1000, 1000, 4000}, 1000, 4000, 3, "1,000 ±300%", "1,000 (1,000 to 4,000)"},
		{nil, math.NaN(), math.NaN(), math.NaN(), "-", "-"},
	} {
		for name, got := range map[string][2]float64{
			"median": {tc.sample.Median(), tc.median}, "p90": {tc.sample.Quantile(0.9), tc.p90}, "spread": {tc.sample.Spread(), tc.spread},
		} {
			if math.Abs(got[0]-got[1]) > 1e-9 || math.IsNaN(got[0]) != math.IsNaN(got[1]) {
				t.Errorf("%v: %s is %v, want %v", tc.sample, name, got[0], got[1])
			}
		}
		if tc.sample.String() != tc.text || tc.sample.Range() != tc.ends {
			t.Errorf("text %q and %q, want %q and %q", tc.sample, tc.sample.Range(), tc.text, tc.ends)
		}
	}
	if got := (Sample{10, 40}).Over(Sample{5, 10}); len(got) != 2 || got[0] != 2 || got[1] != 4 {
		t.Errorf("got %v, want [2 4]", got)
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
