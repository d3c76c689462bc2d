package growth

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// supernet is a network that blocks of one size are cut from.
type supernet struct {
	prefix netip.Prefix
	// bits is the prefix length of the blocks.
	bits int
}

// block returns the lowest block clear of all obstacles, or zero. It costs one sort of obstacles.
func (s supernet) block(obstacles []addressindex.Network) netip.Prefix {
	var taken []allocator.Span
	for _, o := range obstacles {
		if o.Prefix.Overlaps(s.prefix) {
			taken = append(taken, steering.SpanOf(o.Prefix))
		}
	}
	for _, free := range steering.SpanOf(s.prefix).Subtract(taken...) {
		if p := firstIn(free, s.bits); p.IsValid() {
			return p
		}
	}
	return netip.Prefix{}
}

// firstIn returns the first prefix of a length that lies in a span, the zero Prefix if none does.
//
//	span        |------------------|
//	blocks   |-----|-----|-----|-----|
//	answer         |-----|
func firstIn(free allocator.Span, bits int) netip.Prefix {
	p := netip.PrefixFrom(free.First, bits).Masked()
	if p.Addr() != free.First {
		p = netip.PrefixFrom(steering.SpanOf(p).Last.Next(), bits)
	}
	if !p.IsValid() || !free.Contains(p.Addr()) || !free.Contains(steering.SpanOf(p).Last) {
		return netip.Prefix{}
	}
	return p
}

// size is how many addresses a block brings that are drawn.
func (s supernet) size() float64 {
	r, err := allocator.NewRange(netip.PrefixFrom(s.prefix.Addr(), s.bits))
	if err != nil {
		return 0 // the schema refuses such a block
	}
	return float64(r.Band(allocator.Dynamic).Size())
}

// nameOf is the name of a block's ServiceCIDR, unique to the block: an address has one short form.
func nameOf(block netip.Prefix) string {
	return "grown-" + strings.NewReplacer(".", "-", ":", "-").Replace(block.Addr().String()) + "-" + strconv.Itoa(block.Bits())
}
