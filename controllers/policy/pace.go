package policy

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// writesASecond bounds the status writes for all policies together: each goes to every replica, and the Keeper needs the API server too. A thousand policies that are created
// together are told of within seconds, each twice: before and after its range is ready.
const writesASecond = 400

// pace remembers when each policy was looked at and written. The zero value is ready; it is safe for concurrent use.
type pace struct {
	mu     sync.Mutex
	last   map[string]turn
	budget *rate.Limiter
}

// turn is when a policy was last looked at, and when it was last written; the latter is zero before the first time.
type turn struct{ looked, wrote time.Time }

// left returns how long a policy has to wait for its next look.
func (p *pace) left(name string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.last[name]
	if !ok {
		return 0
	}
	return every - now.Sub(last.looked)
}

// start notes a look.
func (p *pace) start(name string, now time.Time) {
	p.note(name, func(t *turn) { t.looked = now })
}

// wrote notes a write.
func (p *pace) wrote(name string, now time.Time) {
	p.note(name, func(t *turn) { t.wrote = now })
}

func (p *pace) note(name string, change func(*turn)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = map[string]turn{}
	}
	t := p.last[name]
	change(&t)
	p.last[name] = t
}

func (p *pace) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, name)
}

// mayCount returns how long a policy has to wait before counts that moved, and nothing else, are written. They take what is left of the
// budget, so that they never hold up a condition.
func (p *pace) mayCount(name string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := p.last[name].wrote.Add(countsEvery).Sub(now); left > 0 {
		return left
	}
	if !p.limiter().Allow() {
		return every
	}
	return 0
}

// wait returns when there is room for one more write, or with the error of ctx.
func (p *pace) wait(ctx context.Context) error {
	p.mu.Lock()
	budget := p.limiter()
	p.mu.Unlock()
	return budget.Wait(ctx)
}

// limiter is the budget of all policies; the caller holds mu.
func (p *pace) limiter() *rate.Limiter {
	if p.budget == nil {
		p.budget = rate.NewLimiter(writesASecond, writesASecond)
	}
	return p.budget
}
