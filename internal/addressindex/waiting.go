package addressindex

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

const (
	// lookAgain is after how long a line is looked at that nothing woke: the watch may have shown
	// an address elsewhere that was handed out later, and with the last release a second ago
	// nothing moves any more. It is one look for all that wait in the line.
	lookAgain = 100 * time.Millisecond
	// lookAgainSoonest bounds how often that is.
	lookAgainSoonest = 5 * time.Millisecond
)

// line are the requests that wait for an address of the same tiers. Whatever makes room there
// serves one: the namespaces take turns, and in each the first one comes first. So a namespace with
// many requests does not keep another waiting, and a thousand requests cost no more than one.
type line struct {
	order  []*allocator.Tier
	queues []*queue // of the namespaces that wait; the first has its turn
	timer  *time.Timer
}

type queue struct {
	namespace string
	waiting   []*waiter
}

// waiter is a request that waits. What it got is written before done is closed.
type waiter struct {
	to    Holder
	drawn allocator.Drawn
	err   error
	done  chan struct{}
}

// Await is Draw that waits while the ranges are full and may have room in a moment: until one of
// their addresses comes free, or yields, or nothing moves there any more, or the context ends. The
// error matches allocator.ErrFull if there is no address by then.
func (ix *Index) Await(ctx context.Context, order []*allocator.Tier, to Holder) (allocator.Drawn, error) {
	w := ix.await(ctx, order, to)
	select {
	case <-w.done:
	case <-ctx.Done():
		ix.leave(order, w)
	}
	return w.drawn, w.err
}

// await draws, or lets a request wait. A newcomer does not overtake the requests that wait already.
func (ix *Index) await(ctx context.Context, order []*allocator.Tier, to Holder) *waiter {
	w := &waiter{to: to, done: make(chan struct{})}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	li := ix.lineOf(order)
	if li == nil {
		drawn, err := ix.draw(order, to)
		if !errors.Is(err, allocator.ErrFull) || ctx.Err() != nil || !ix.moving(order) {
			w.end(drawn, err)
			return w
		}
		li = &line{order: order}
		ix.lines = append(ix.lines, li)
	}
	li.join(w)
	ix.serveLine(li)
	return w
}

func (ix *Index) lineOf(order []*allocator.Tier) *line {
	if i := slices.IndexFunc(ix.lines, func(li *line) bool { return slices.Equal(li.order, order) }); i >= 0 {
		return ix.lines[i]
	}
	return nil
}

// leave takes a request out that waits no longer. What it was served at the last moment it keeps.
func (ix *Index) leave(order []*allocator.Tier, w *waiter) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	select {
	case <-w.done:
		return
	default:
	}
	li := ix.lineOf(order)
	li.remove(w)
	w.end(allocator.Drawn{}, allocator.ErrFull)
	if len(li.queues) == 0 {
		ix.closeLine(li)
	}
}

// serve gives waiting requests an address at which something has changed; the caller holds mu.
func (ix *Index) serve(a netip.Addr) {
	for _, li := range slices.Clone(ix.lines) {
		if within(li.order, a) {
			ix.serveLine(li)
		}
	}
}

// serveLine draws for the requests of a line while there is something to draw. When nothing may
// come any more it sends all of them away. The caller holds mu.
func (ix *Index) serveLine(li *line) {
	served := false
	for len(li.queues) > 0 {
		w := li.next()
		drawn, err := ix.draw(li.order, w.to)
		if errors.Is(err, allocator.ErrFull) {
			if ix.moving(li.order) {
				ix.wakeLater(li)
				break
			}
			li.sendAway(err)
			break
		}
		li.remove(w)
		w.end(drawn, err)
		served = true
	}
	if len(li.queues) == 0 {
		ix.closeLine(li)
	} else if served { // other lines may want the same addresses: they come first the next time
		i := slices.Index(ix.lines, li)
		ix.lines = append(slices.Delete(ix.lines, i, i+1), li)
	}
}

// wakeLater has a line looked at when an address in flight will yield; the caller holds mu.
func (ix *Index) wakeLater(li *line) {
	now, in := ix.clock.Now(), lookAgain
	if at, ok := ix.flights.YieldsAt(li.order, now); ok {
		in = min(in, max(lookAgainSoonest, at.Sub(now)))
	}
	if li.timer != nil {
		li.timer.Reset(in)
		return
	}
	li.timer = time.AfterFunc(in, func() {
		ix.mu.Lock()
		defer ix.mu.Unlock()
		if slices.Contains(ix.lines, li) {
			ix.serveLine(li)
		}
	})
}

// closeLine forgets a line in which no request waits any more; the caller holds mu.
func (ix *Index) closeLine(li *line) {
	if li.timer != nil {
		li.timer.Stop()
	}
	ix.lines = slices.DeleteFunc(ix.lines, func(other *line) bool { return other == li })
}

func (w *waiter) end(drawn allocator.Drawn, err error) {
	w.drawn, w.err = drawn, err
	close(w.done)
}

// join puts a request behind those of its namespace.
func (li *line) join(w *waiter) {
	q := li.queueOf(w)
	if q == nil {
		q = &queue{namespace: w.to.Service.Namespace}
		li.queues = append(li.queues, q)
	}
	q.waiting = append(q.waiting, w)
}

// next is the request that is served next; one waits at least.
func (li *line) next() *waiter { return li.queues[0].waiting[0] }

// remove takes a request out, and its namespace to the end if it had its turn.
func (li *line) remove(w *waiter) {
	q := li.queueOf(w)
	turn := w == li.next()
	q.waiting = slices.DeleteFunc(q.waiting, func(other *waiter) bool { return other == w })
	if turn || len(q.waiting) == 0 {
		li.queues = slices.DeleteFunc(li.queues, func(other *queue) bool { return other == q })
	}
	if turn && len(q.waiting) > 0 {
		li.queues = append(li.queues, q)
	}
}

func (li *line) queueOf(w *waiter) *queue {
	i := slices.IndexFunc(li.queues, func(q *queue) bool { return q.namespace == w.to.Service.Namespace })
	if i < 0 {
		return nil
	}
	return li.queues[i]
}

// sendAway ends the wait of all.
func (li *line) sendAway(err error) {
	for _, q := range li.queues {
		for _, w := range q.waiting {
			w.end(allocator.Drawn{}, err)
		}
	}
	li.queues = nil
}
