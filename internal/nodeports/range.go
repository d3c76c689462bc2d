package nodeports

import (
	"fmt"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Range is a range of node ports. The zero Range has none.
type Range struct {
	first uint16
	size  int
}

// ParseRange reads a range as kube-apiserver does: FIRST-LAST, FIRST+MORE, or one port.
func ParseRange(text string) (Range, error) {
	r, err := utilnet.ParsePortRange(text)
	if err != nil || r.Base < 1 {
		return Range{}, fmt.Errorf("%.100q is no range of ports; write FIRST-LAST, such as %s, with ports from 1 to 65535", text, v1alpha1.DefaultNodePortRange)
	}
	return Range{first: uint16(r.Base), size: r.Size}, nil
}

// String is FIRST-LAST.
func (r Range) String() string { return utilnet.PortRange{Base: int(r.first), Size: r.size}.String() }

// Contains reports whether a port lies in the range.
func (r Range) Contains(port uint16) bool {
	return port >= r.first && int(port)-int(r.first) < r.size
}

// Size is how many ports the range has.
func (r Range) Size() int { return r.size }

// static is how many ports at the beginning are kept for Services that name them (KEP-3668):
// kube-apiserver draws from the rest first. A range of 16 or less has no such band.
func (r Range) static() int {
	const least, most, step = 16, 128, 32
	if r.size <= least {
		return 0
	}
	return min(max(r.size/step, least), most)
}

// Band is the part of the range that kube-apiserver treats as one band, the zero Range for none.
func (r Range) Band(b allocator.Band) Range {
	switch n := r.static(); {
	case b != allocator.Static:
		return Range{first: r.first + uint16(n), size: r.size - n}
	case n == 0:
		return Range{}
	default:
		return Range{first: r.first, size: n}
	}
}

// BandOf returns the band of a port, false outside of the range.
func (r Range) BandOf(port uint16) (b allocator.Band, ok bool) {
	if r.Band(allocator.Static).Contains(port) {
		return allocator.Static, true
	}
	return allocator.Dynamic, r.Contains(port)
}
