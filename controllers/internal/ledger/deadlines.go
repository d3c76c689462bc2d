package ledger

import (
	"container/heap"
	"net/netip"
	"time"
)

// deadline is when an address has to be looked at again.
type deadline struct {
	at      time.Time
	address netip.Addr
}

// deadlines is a heap, the earliest first. An entry may be out of date: whoever takes it looks at the address.
type deadlines []deadline

// Len implements sort.Interface.
func (d deadlines) Len() int { return len(d) }

// Less implements sort.Interface.
func (d deadlines) Less(i, j int) bool { return d[i].at.Before(d[j].at) }

// Swap implements sort.Interface.
func (d deadlines) Swap(i, j int) { d[i], d[j] = d[j], d[i] }

// Push implements heap.Interface.
func (d *deadlines) Push(x any) { *d = append(*d, x.(deadline)) }

// Pop implements heap.Interface.
func (d *deadlines) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

func (d *deadlines) push(at time.Time, a netip.Addr) { heap.Push(d, deadline{at, a}) }

// due takes out the next address whose time has come.
func (d *deadlines) due(now time.Time) (netip.Addr, bool) {
	if len(*d) == 0 || (*d)[0].at.After(now) {
		return netip.Addr{}, false
	}
	return heap.Pop(d).(deadline).address, true
}
