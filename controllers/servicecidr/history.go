package servicecidr

import (
	"net/netip"
	"sync"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

const (
	// window is how far the forecast looks back, step how often it takes a sample.
	window = 6 * time.Hour
	step   = 5 * time.Minute
	// enough history for a rate; less would make a forecast out of one deployment.
	enough = 30 * time.Minute
)

// history remembers how many addresses of each band were in use over the last hours. The zero value is ready.
// It is lost with the process: a forecast is good again half an hour after a restart. A band costs 72 samples.
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

// rate notes the present use and returns the net growth per hour over the window. known is false while the
// window holds less than enough.
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
	for key := range h.bands {
		if key.servicecidr == servicecidr {
			delete(h.bands, key)
		}
	}
}
