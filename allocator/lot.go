package allocator

import (
	"errors"
	"net/netip"
)

// Lot says where Pool.Draw may draw an address. The zero Lot has nothing to draw.
type Lot struct {
	// Tiers are asked in order: nothing is drawn from one as long as the ones before it have a free address. All
	// that have addresses are of one family. They may overlap.
	Tiers []*Tier
	// Yield draws, when no tier has a free address, the one of all tiers that has been cooling for longest.
	// Otherwise cooling addresses are not drawn.
	Yield bool
}

// Drawn is an address that Pool.Draw has made Assumed.
type Drawn struct {
	Addr netip.Addr
	// Cooled says that the address was cooling and had to yield.
	Cooled bool
}

var errTwoFamilies = errors.New("drawing an address: the tiers are of two families; draw from each family by itself")

// family reports whether the lot is of IPv4, and returns an error if it is of both families. Tiers without
// addresses are of neither.
func (l Lot) family() (is4 bool, err error) {
	known := false
	for _, t := range l.Tiers {
		switch {
		case len(t.runs()) == 0:
		case !known:
			is4, known = t.is4, true
		case t.is4 != is4:
			return false, errTwoFamilies
		}
	}
	return is4, nil
}

// union returns the addresses of all tiers, each once.
func (l Lot) union() intervals {
	var all intervals
	for _, t := range l.Tiers {
		all = append(all, t.runs()...)
	}
	return all.normalize()
}
