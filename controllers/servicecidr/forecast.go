package servicecidr

import (
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

const (
	// window is how far the forecast looks back, step how long after a sample it takes the next one.
	window = 6 * time.Hour
	step   = 5 * time.Minute
	// enough history for a rate; less would make a forecast out of one deployment.
	enough = 30 * time.Minute
)

// history remembers the use of each band over the last hours, in 72 samples at most. The zero value
// is ready. It is lost with the process: a forecast is good again half an hour after a restart.
type history struct {
	mu    sync.Mutex
	bands map[bandKey][]sample
}

type bandKey struct {
	servicecidr string
	cidr        netip.Prefix
	band        allocator.Band
}

type sample struct {
	at   time.Time
	used uint64
}

// rate notes the use and returns its net growth per hour over the window; known: it holds enough.
func (h *history) rate(key bandKey, now time.Time, used uint64) (perHour float64, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bands == nil {
		h.bands = map[bandKey][]sample{}
	}
	samples := h.bands[key]
	for len(samples) > 0 && now.Sub(samples[0].at) > window {
		samples = samples[1:]
	}
	if len(samples) == 0 || now.Sub(samples[len(samples)-1].at) >= step {
		samples = append(samples, sample{now, used})
	}
	h.bands[key] = samples
	oldest := samples[0]
	span := now.Sub(oldest.at)
	if span < enough {
		return 0, false
	}
	return (float64(used) - float64(oldest.used)) / span.Hours(), true
}

// forget drops the history of a ServiceCIDR that is gone.
func (h *history) forget(servicecidr string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.bands, func(key bandKey, _ []sample) bool { return key.servicecidr == servicecidr })
}

// bandUse is the use of one band of one range.
type bandUse struct {
	cidr  netip.Prefix
	band  allocator.Band
	usage allocator.Usage
	// perHour is the net growth over the last hours; known is false while the history is too short.
	perHour float64
	known   bool
	// unsteered: no webhook draws, and the API server allocates no address that cools down.
	unsteered bool
	// cordoned is the policy that has the range cordoned, empty for none.
	cordoned string
}

// available is how many addresses a new Service could get. One that cools down is given to it when
// nothing else is free, so that a tenant that creates and deletes Services fills no range.
func (b bandUse) available() uint64 {
	if b.unsteered {
		return b.usage.Free
	}
	return b.usage.Available()
}

// full reports whether a band that has addresses has none left.
func (b bandUse) full() bool { return b.usage.Size > 0 && b.available() == 0 }

// scarce reports whether no more than the given share is available, rounded up: of the six
// addresses of a /29 the last one is scarce.
func (b bandUse) scarce(percent int) bool {
	if b.usage.Size == 0 || percent <= 0 {
		return false
	}
	// Divide before multiplying: an IPv6 band has up to 2^64 addresses.
	least := b.usage.Size/100*uint64(percent) + (b.usage.Size%100*uint64(percent)+99)/100
	return b.available() <= least
}

// left is the time until the band is full at the present rate; ok is false when it does not grow.
func (b bandUse) left() (d time.Duration, ok bool) {
	if !b.known || b.perHour <= 0 {
		return 0, false
	}
	hours := float64(b.available()) / b.perHour
	if hours > 10*365*24 {
		return 0, false
	}
	return time.Duration(hours * float64(time.Hour)), true
}

// soon reports whether the forecast falls within the limit. A band that is not half full yet grows
// from a small base, and its forecast is no alarm.
func (b bandUse) soon(within time.Duration) bool {
	d, ok := b.left()
	return ok && d < within && b.available() <= b.usage.Size/2
}
