package traffic

import (
	"fmt"
	"maps"
	"sync"
	"time"
)

// shown is how many losses are kept in words; all of them are counted.
const shown = 20

// Report is the account of one traffic. Its zero value is that of a traffic that did nothing.
type Report struct {
	// Tried counts connections, or questions on those that stay open.
	Tried int
	// Lost counts those that failed or needed a packet sent again.
	Lost int
	// Losses are the first of them in words, with the time since the start.
	Losses []string
	// Answers counts who answered.
	Answers map[string]int
}

// account is a Report that many goroutines write.
type account struct {
	mu     sync.Mutex
	since  time.Time
	report Report
}

func newAccount() *account {
	return &account{since: time.Now(), report: Report{Answers: map[string]int{}}}
}

func (a *account) answered(who string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Tried++
	a.report.Answers[who]++
}

func (a *account) lost(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Tried++
	a.report.Lost++
	if len(a.report.Losses) < shown {
		a.report.Losses = append(a.report.Losses, fmt.Sprintf("after %.3f s: %v", time.Since(a.since).Seconds(), why))
	}
}

// read returns a copy of the Report so far.
func (a *account) read() Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.report
	r.Losses = append([]string(nil), r.Losses...)
	r.Answers = maps.Clone(r.Answers)
	return r
}
