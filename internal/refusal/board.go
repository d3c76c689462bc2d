package refusal

import (
	"cmp"
	"slices"
	"sync"
)

// Refused is a kind of write that the API server refuses.
type Refused struct {
	// Operation is what it refuses to do with IPAddresses, For what they are written for.
	Operation, For string
	// Remedy is what an admin can do, other than to allow it, Said what the API server answered.
	Remedy, Said string
}

// Board has all that is refused to a process. The zero value is empty; concurrent use is safe.
type Board struct {
	mu      sync.Mutex
	refused []Refused
	told    []func()
}

// Refused returns what is refused, in an order that does not depend on time.
func (b *Board) Refused() []Refused {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.refused)
}

// Subscribe has f called after each change. f may not wait.
func (b *Board) Subscribe(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, f)
}

// set notes that a kind of write is refused, or is not any more.
func (b *Board) set(r Refused, closed bool) {
	b.mu.Lock()
	b.refused = slices.DeleteFunc(b.refused, func(o Refused) bool { return o.Operation == r.Operation && o.For == r.For })
	if closed {
		b.refused = append(b.refused, r)
	}
	slices.SortFunc(b.refused, func(a, b Refused) int {
		return cmp.Or(cmp.Compare(a.For, b.For), cmp.Compare(a.Operation, b.Operation))
	})
	told := slices.Clone(b.told)
	b.mu.Unlock()
	for _, f := range told {
		f()
	}
}
