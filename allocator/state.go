package allocator

import "strconv"

// State is what an address is in a Pool.
type State uint8

const (
	// Free addresses can be drawn and chosen.
	Free State = iota
	// Assumed addresses have been handed out by Draw or Assume; the cluster has not confirmed them yet.
	Assumed
	// Allocated addresses belong to somebody.
	Allocated
	// Reserved addresses are kept for somebody who does not exist yet.
	Reserved
	// Cooling addresses were given back a short while ago and rest, so that nobody who still has them in a
	// cache talks to a stranger.
	Cooling
)

// String returns the state in lower case.
func (s State) String() string {
	names := [...]string{Free: "free", Assumed: "assumed", Allocated: "allocated", Reserved: "reserved", Cooling: "cooling"}
	if int(s) < len(names) {
		return names[s]
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}

// Usage is how the addresses of a Span are used. Size is the sum of the others; assumed addresses count as
// allocated.
type Usage struct{ Size, Allocated, Reserved, Cooling, Free uint64 }

// of completes what was counted in a span of the given size.
func (u Usage) of(size uint64) Usage {
	u.Size, u.Free = size, size-u.Allocated-u.Reserved-u.Cooling
	return u
}
