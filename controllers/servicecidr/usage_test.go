package servicecidr

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

func use(band allocator.Band, size, free uint64) bandUse {
	return bandUse{cidr: netip.MustParsePrefix("10.96.0.0/24"), band: band, usage: allocator.Usage{Size: size, Allocated: size - free, Free: free}}
}

func TestUsageWaitsUnlessABandFillsUp(t *testing.T) {
	text := func(free uint64) string {
		body, err := json.Marshal(usageOf([]bandUse{use(allocator.Static, 16, 16), use(allocator.Dynamic, 238, free)}))
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	for name, tc := range map[string]struct {
		have  string
		free  uint64
		since time.Duration
		write bool
		wait  time.Duration
	}{
		"never written":           {"", 100, 0, true, 0},
		"nothing new":             {text(100), 100, time.Hour, false, 0},
		"a step soon after":       {text(100), 98, 10 * time.Second, false, 50 * time.Second},
		"a step later":            {text(100), 98, time.Minute, true, 0},
		"a step down":             {text(100), 102, time.Minute, true, 0},
		"the first one":           {text(238), 237, time.Minute, true, 0},
		"the last one":            {text(237), 238, time.Minute, true, 0},
		"less than a step":        {text(100), 99, time.Minute, false, 9 * time.Minute},
		"less than a step, later": {text(100), 99, 10 * time.Minute, true, 0},
		"full":                    {text(1), 0, time.Second, true, 0},
		"not full any more":       {text(0), 1, time.Second, true, 0},
		"broken by somebody":      {"{", 100, time.Second, true, 0},
		"a range less than there": {`{"ranges":[]}`, 100, time.Second, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, wait, err := dueUsage(tc.have, usageOf([]bandUse{use(allocator.Static, 16, 16), use(allocator.Dynamic, 238, tc.free)}), tc.since)
			if err != nil || (got != "") != tc.write || wait != tc.wait {
				t.Errorf("writes %q, waits %v, error %v; want %t, %v", got, wait, err, tc.write, tc.wait)
			}
		})
	}
}

func TestUsageSaysHowItGrows(t *testing.T) {
	huge := bandUse{usage: allocator.Usage{Size: 1<<64 - 1, Free: 1<<64 - 1}}
	if got := huge.counts(); got.Free != 1<<63-1 || got.GrowthPerDay != nil {
		t.Errorf("a /64: %+v", got)
	}
	for rate, want := range map[float64]int64{0: 0, 1.4: 34, 10: 240, -10: -240, 1234.5: 30000} {
		got := growing(huge, rate).counts()
		if got.GrowthPerDay == nil || *got.GrowthPerDay != want {
			t.Errorf("%v an hour is %v a day, want %d", rate, *got.GrowthPerDay, want)
		}
	}
}
