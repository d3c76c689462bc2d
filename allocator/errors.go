package allocator

import (
	"errors"
	"fmt"
)

// ErrFull is what every *FullError is: nothing is left to draw.
var ErrFull = errors.New("no free address")

// RangeError says why a prefix cannot be a Service range and what to write instead.
type RangeError struct {
	Input  string // the prefix as it was given
	Reason string // what is wrong with it and what to do
}

// Error implements error.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%q cannot be a Service range: %s", e.Input, e.Reason)
}

// FullError is the answer to a Lot that leaves nothing to draw. It matches ErrFull.
type FullError struct {
	// Usage is that of all addresses of all tiers, each counted once; none of them is free. Size is 0 if there is no
	// address at all.
	Usage Usage
}

// Error implements error.
func (e *FullError) Error() string {
	u := e.Usage
	if u.Size == 0 {
		return "no free address: there is none to draw from"
	}
	return fmt.Sprintf("no free address: of %d to draw from %d are allocated, %d reserved and %d cooling",
		u.Size, u.Allocated, u.Reserved, u.Cooling)
}

// Is makes errors.Is(err, ErrFull) true.
func (e *FullError) Is(target error) bool { return target == ErrFull }
