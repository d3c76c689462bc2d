package bitmap

import (
	"errors"
	"fmt"
	"net/netip"
)

var (
	// ErrUnset is the answer to a RangeAllocation that was created and never used: it has neither a range nor
	// addresses.
	ErrUnset = errors.New("the bitmap was created and never used: take the range from the API server, no address is in use")
	// ErrNodePorts is the answer to the RangeAllocation of node ports, which has the same form.
	ErrNodePorts = errors.New("the bitmap is that of node ports, not of addresses: leave it as it is")
)

// SpecError says why something cannot be the range of a bitmap and what to do.
type SpecError struct {
	Spec   string // the range as it was given
	Reason string // what is wrong with it and what to do
}

// Error implements error.
func (e *SpecError) Error() string {
	return fmt.Sprintf("%q cannot be the range of a bitmap: %s", e.Spec, e.Reason)
}

// OverflowError says that bits are set which stand for no address of the range.
type OverflowError struct {
	Spec  string     // the range as it was given
	Bits  int        // how many such bits are set
	Max   int        // how many bits the range has: the bits 0 to Max-1 stand for an address
	First int        // the lowest bit that is set without standing for one
	Addr  netip.Addr // the address that it would stand for in a larger range; not valid where addresses end
}

// Error implements error.
func (e *OverflowError) Error() string {
	first := fmt.Sprintf("bit %d", e.First)
	if e.Addr.IsValid() {
		first = fmt.Sprintf("bit %d (%s)", e.First, e.Addr)
	}
	return fmt.Sprintf("the bitmap of %s has %d bits, with %d set beyond them, the first is %s: "+
		"either the range was larger once or the bytes are damaged; look for Services with such addresses, then rebuild the bitmap from the Services",
		e.Spec, e.Max, e.Bits, first)
}

// NotCoveredError says that an address has no bit in a bitmap.
type NotCoveredError struct {
	Addr        netip.Addr
	Prefix      netip.Prefix // the range of the bitmap
	First, Last netip.Addr   // the ends of what it covers; not valid if that is nothing
}

// Error implements error.
func (e *NotCoveredError) Error() string {
	if !e.First.IsValid() {
		return fmt.Sprintf("address %s has no bit: the bitmap of %s has none at all, choose a larger range", e.Addr, e.Prefix)
	}
	return fmt.Sprintf("address %s has no bit: the bitmap of %s goes from %s to %s, choose an address of these", e.Addr, e.Prefix, e.First, e.Last)
}
