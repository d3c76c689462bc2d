package inspect

import (
	"bufio"
	"io"
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// drawn is what `map` draws.
type drawn struct {
	charts []Chart
	// partial says what the user may not read: there is but what the Services of a namespace have.
	partial string
}

// addressMap is what -o json and yaml print of it.
type addressMap struct {
	Kind    string       `json:"kind"`
	Partial string       `json:"partial,omitempty"`
	Items   []rangeCells `json:"items"`
}

// rangeCells are one range that is drawn, or the part of it.
type rangeCells struct {
	CIDR  netip.Prefix `json:"cidr"`
	Cells []cellUsage  `json:"cells"`
}

// cellUsage counts the addresses of a cell.
type cellUsage struct {
	CIDR netip.Prefix `json:"cidr"`
	// Band is that of the first address; empty if no Service can have it, or bands are not known.
	Band      string `json:"band,omitempty"`
	Allocated uint64 `json:"allocated"`
	Reserved  uint64 `json:"reserved"`
	Cooling   uint64 `json:"cooling"`
	Free      uint64 `json:"free"`
	// Wrong: something is wrong with one of them.
	Wrong bool `json:"wrong,omitempty"`
}

func (d drawn) print(to io.Writer, format string) error {
	if !cli.AsTable(format) {
		return cli.Encode(to, d.forPrograms(), format)
	}
	w := bufio.NewWriter(to)
	for _, c := range d.charts {
		c.draw(w)
	}
	return w.Flush()
}

func (d drawn) forPrograms() addressMap {
	out := addressMap{Kind: "AddressMap", Partial: d.partial, Items: []rangeCells{}}
	for _, c := range d.charts {
		one := rangeCells{CIDR: c.Prefix}
		for _, cell := range c.Cells {
			one.Cells = append(one.Cells, cell.forPrograms(c.Bits))
		}
		out.Items = append(out.Items, one)
	}
	return out
}

// forPrograms counts the addresses of a cell of 2^bits.
func (c Cell) forPrograms(bits int) cellUsage {
	first := c.span.First
	out := cellUsage{
		CIDR: netip.PrefixFrom(first, first.BitLen()-bits), Wrong: c.Wrong,
		Allocated: c.Usage.Allocated, Reserved: c.Usage.Reserved, Cooling: c.Usage.Cooling, Free: c.Usage.Free,
	}
	if c.offered {
		out.Band = c.band.String()
	}
	return out
}
