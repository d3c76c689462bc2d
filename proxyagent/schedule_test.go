package proxyagent

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestTheEarliestRoundCounts: when rounds are wanted after the last one (pause 2 s), and one comes.
func TestTheEarliestRoundCounts(t *testing.T) {
	for _, seconds := range [][]time.Duration{{8, 8}, {1, 2}, {0, 8, 2}, {8, 0, 2}, {8, 4, 4}, {4, 8, 4}} {
		synctest.Test(t, func(t *testing.T) {
			p, end := schedule{pause: 2 * time.Second}, time.Now()
			p.done(end)
			for _, after := range seconds[:len(seconds)-1] {
				p.again(end, end.Add(after*time.Second))
			}
			<-p.due()
			if got := time.Since(end); got != seconds[len(seconds)-1]*time.Second {
				t.Errorf("%d: the next round is after %s", seconds, got)
			}
			p.done(time.Now())
			select {
			case <-p.due():
				t.Error("there is a round more")
			case <-time.After(time.Hour):
			}
		})
	}
}
