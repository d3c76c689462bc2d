package upgrade

import (
	"testing"
	"time"
)

func TestWritingTime(t *testing.T) {
	for name, tc := range map[string]struct {
		said string
		want time.Duration // 0 for an error
	}{
		"the last line counts": {
			"writing: 4000 of 10000 after 10s, about 15s left\nwriting: 10000 of 10000 after 24.3s, about 0s left\n10000 steps done\n", 24300 * time.Millisecond,
		},
		"more than a minute":      {"writing: 65000 of 65000 after 1m2.5s, about 0s left\n", 62500 * time.Millisecond},
		"less than a second":      {"writing: 10 of 10 after 200ms, about 0s left\n", 200 * time.Millisecond},
		"it was ended on the way": {"writing: 4000 of 10000 after 10s, about 15s left\n", 0},
		"nothing was to do":       {"0 steps done\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := writingTime(tc.said)
			if (err != nil) != (tc.want == 0) || got != tc.want {
				t.Errorf("got %s, %v; want %s", got, err, tc.want)
			}
		})
	}
}
