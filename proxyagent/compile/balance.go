package compile

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// balance writes scheduler and weights of a port whose endpoint sets are known.
func balance(p *model.ServicePort, all endpoints, b *model.Balancing) {
	if b == nil {
		return
	}
	p.Scheduler = b.Scheduler
	if b.Weighs() {
		p.Weights = weightsOf(all, func(a netip.AddrPort) bool { return has(p.Cluster, a) || has(p.Local, a) })
	}
}

// weightsOf returns the weights of the endpoints that may be used, divided by what divides all of
// them, because rules spell weights out. It is nil where all weigh the same.
func weightsOf(all endpoints, used func(netip.AddrPort) bool) model.Weights {
	all = slices.DeleteFunc(slices.Clone(all), func(e *model.Endpoint) bool { return !used(e.Addr) })
	divisor := uint8(0)
	for _, e := range all {
		divisor = greatestCommonDivisor(divisor, e.Weight)
	}
	if divisor == 0 {
		return nil
	}
	var out model.Weights
	for _, e := range all {
		if e.Weight == divisor {
			continue
		}
		if out == nil {
			out = model.Weights{}
		}
		out[e.Addr] = e.Weight / divisor
	}
	return out
}

// greatestCommonDivisor is that of two numbers, of which zero can be divided by all.
func greatestCommonDivisor(a, b uint8) uint8 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
