package servicecidr

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/ledger"
)

// world is everything that is known about one ServiceCIDR. decide reads nothing else.
type world struct {
	now time.Time
	// deleted is when deletion was asked for, zero if it was not.
	deleted time.Time
	// orphans is the number of addresses that would be left without a range, and blockers the first of them.
	orphans  uint64
	blockers []blocker
	bands    []bandUse
	overlaps []ledger.Network
	limits   Limits
}

// blocker is an address that holds a ServiceCIDR, and whose it is.
type blocker struct {
	address netip.Addr
	owner   string
}

// String names the address and its owner, for people.
func (b blocker) String() string { return fmt.Sprintf("%s (%s)", b.address, b.owner) }

// bandUse is the use of one band of one range.
type bandUse struct {
	cidr  netip.Prefix
	band  allocator.Band
	usage allocator.Usage
	// perHour is the net growth over the last hours; known is false as long as the history is too short.
	perHour float64
	known   bool
}

// Limits say when a range counts as nearly full. The zero value never warns.
type Limits struct {
	// FreePercent warns when no more than this share of a band is free.
	FreePercent int
	// Within warns when the forecast says that a band will be full before this time has passed.
	Within time.Duration
}

// used is what is not free.
func (b bandUse) used() uint64 { return b.usage.Size - b.usage.Free }

// full reports whether a band that has addresses has none left.
func (b bandUse) full() bool { return b.usage.Size > 0 && b.usage.Free == 0 }

// scarce reports whether no more than the given share is free, rounded up: of the six addresses of a /29 the
// last one is scarce.
func (b bandUse) scarce(percent int) bool {
	if b.usage.Size == 0 || percent <= 0 {
		return false
	}
	// Divide before multiplying: an IPv6 band has up to 2^64 addresses.
	least := b.usage.Size/100*uint64(percent) + (b.usage.Size%100*uint64(percent)+99)/100
	return b.usage.Free <= least
}

// left is the time until the band is full at the present rate; ok is false when it does not grow.
func (b bandUse) left() (d time.Duration, ok bool) {
	if !b.known || b.perHour <= 0 {
		return 0, false
	}
	hours := float64(b.usage.Free) / b.perHour
	if hours > 10*365*24 {
		return 0, false
	}
	return time.Duration(hours * float64(time.Hour)), true
}

// soon reports whether the forecast falls within the limit. A band that is not half full yet grows from a
// small base, and its forecast is no alarm.
func (b bandUse) soon(within time.Duration) bool {
	d, ok := b.left()
	return ok && d < within && b.usage.Free <= b.usage.Size/2
}
