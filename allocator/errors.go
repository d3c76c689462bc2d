package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

var (
	// ErrFull is what every *FullError is: nothing is left to draw.
	ErrFull = errors.New("no free address")
	// ErrTaken is what every *TakenError is: the chosen address is not free.
	ErrTaken = errors.New("address is taken")
)

// RangeError says why a prefix cannot be a Service range and what to write instead.
type RangeError struct {
	Input  string // the prefix as it was given
	Reason string // what is wrong with it and what to do
}

// Error implements error.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%q cannot be a Service range: %s", e.Input, e.Reason)
}

// FullError is the answer to a Choice that leaves nothing to draw. It matches ErrFull.
type FullError struct {
	Ranges   []Range // where an address was sought
	Usage    Usage   // of all their usable addresses, each counted once
	Excluded uint64  // how many of the free ones were excluded
}

// Error implements error.
func (e *FullError) Error() string {
	if len(e.Ranges) == 0 {
		return "no free address: there is no range to draw from"
	}
	names := make([]string, len(e.Ranges))
	for i, r := range e.Ranges {
		names[i] = r.String()
	}
	u := e.Usage
	return fmt.Sprintf("no free address in %s: of %d usable ones %d are allocated, %d reserved, %d cooling and %d excluded",
		strings.Join(names, ", "), u.Size, u.Allocated, u.Reserved, u.Cooling, e.Excluded)
}

// Is makes errors.Is(err, ErrFull) true.
func (e *FullError) Is(target error) bool { return target == ErrFull }

// TakenError says that a chosen address is not free, and what it is instead. It matches ErrTaken.
type TakenError struct {
	Addr  netip.Addr
	State State
}

// Error implements error.
func (e *TakenError) Error() string { return fmt.Sprintf("address %s is %s", e.Addr, e.State) }

// Is makes errors.Is(err, ErrTaken) true.
func (e *TakenError) Is(target error) bool { return target == ErrTaken }
