package proxyagent

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWhenTheNextRoundIs schedules rounds in seconds after the end of the last one, whose pause is two seconds.
func TestWhenTheNextRoundIs(t *testing.T) {
	for name, tc := range map[string]struct {
		ask  func(p *pace, end time.Time)
		want time.Duration
	}{
		"wanted in the pause":     {func(p *pace, end time.Time) { p.want(end) }, 2},
		"wanted after it":         {func(p *pace, end time.Time) { time.Sleep(3 * time.Second); p.want(time.Now()) }, 3},
		"again later":             {func(p *pace, end time.Time) { p.again(end, end.Add(8*time.Second)) }, 8},
		"again in the pause":      {func(p *pace, end time.Time) { p.again(end, end.Add(time.Second)) }, 2},
		"wanted, and again later": {func(p *pace, end time.Time) { p.want(end); p.again(end, end.Add(8*time.Second)) }, 2},
		"again later, and wanted": {func(p *pace, end time.Time) { p.again(end, end.Add(8*time.Second)); p.want(end) }, 2},
		"again late, and less late": {func(p *pace, end time.Time) {
			p.again(end, end.Add(8*time.Second))
			p.again(end, end.Add(4*time.Second))
		}, 4},
		"again soon, and later still": {func(p *pace, end time.Time) {
			p.again(end, end.Add(4*time.Second))
			p.again(end, end.Add(8*time.Second))
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pace{pause: 2 * time.Second}
				end := time.Now()
				p.done(end)
				tc.ask(&p, end)
				<-p.due()
				if got := time.Since(end); got != tc.want*time.Second {
					t.Errorf("the next round is after %s, want %ds", got, tc.want)
				}
				p.done(time.Now())
				select {
				case <-p.due():
					t.Error("there is a round more")
				case <-time.After(time.Hour):
				}
			})
		})
	}
}
