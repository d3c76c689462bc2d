package console

import (
	"context"
	"fmt"
	"math/big"
	"net/netip"
	"net/url"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/plugin/inspect"
)

// drawing is a part of the address space as the console draws it.
type drawing struct {
	// Ranges are all that can be drawn, CIDR is the part that is.
	Ranges []mapRange `json:"ranges"`
	CIDR   string     `json:"cidr"`
	// Of is the range that CIDR lies in.
	Of string `json:"of"`
	// First is the first address in decimal, too large for a JSON number; a cell is 2^Bits addresses.
	First string `json:"first"`
	Bits  int    `json:"bits"`
	// Dynamic is the first cell that begins in the dynamic band, -1 without any.
	Dynamic int `json:"dynamic"`
	// Allocated, Reserved and Cooling count the addresses of each cell; Wrong are cells with a fault.
	Allocated []uint64 `json:"allocated"`
	Reserved  []uint64 `json:"reserved"`
	Cooling   []uint64 `json:"cooling"`
	Wrong     []int    `json:"wrong"`
}

// mapRange is a range that can be drawn.
type mapRange struct {
	ServiceCIDR string `json:"serviceCIDR"`
	CIDR        string `json:"cidr"`
}

// consoleBits: a part has at most 2^consoleBits cells: a /12 has /24 cells, a /24 single addresses.
const mostBits = 12

// chart draws the part that a CIDR names; the first range without one.
func (d *data) chart(ctx context.Context, query url.Values) (any, error) {
	cidrs, _, err := d.session.RangesAndPolicies(ctx)
	if err != nil {
		return nil, err
	}
	all := mapRanges(cidrs.Items)
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: there is no ServiceCIDR", ErrQuestion)
	}
	what := query.Get("cidr")
	if what == "" {
		what = all[0].CIDR
	}
	parts, err := inspect.RangesToDraw(what, cidrs.Items)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	addresses, err := d.addresses()
	if err != nil {
		return nil, err
	}
	return newDrawing(inspect.NewChart(parts[0], mostBits, d.view.Usage, addresses.wrong), parts[0].Of, all), nil
}

func mapRanges(cidrs []networkingv1.ServiceCIDR) (all []mapRange) {
	for _, o := range cidrs {
		for _, text := range o.Spec.CIDRs {
			if r, err := allocator.ParseRange(text); err == nil {
				all = append(all, mapRange{o.Name, r.String()})
			}
		}
	}
	return all
}

func newDrawing(c inspect.Chart, of allocator.Range, all []mapRange) drawing {
	m := drawing{Ranges: all, CIDR: c.Prefix.String(), Of: of.String(), First: decimal(c.Prefix.Addr()), Bits: c.Bits, Dynamic: -1, Wrong: []int{}}
	for i, one := range c.Cells {
		m.Allocated, m.Reserved, m.Cooling = append(m.Allocated, one.Usage.Allocated), append(m.Reserved, one.Usage.Reserved), append(m.Cooling, one.Usage.Cooling)
		if one.Wrong {
			m.Wrong = append(m.Wrong, i)
		}
		if one.Dynamic() && m.Dynamic < 0 {
			m.Dynamic = i
		}
	}
	return m
}

// decimal writes an address as a number.
func decimal(a netip.Addr) string { return new(big.Int).SetBytes(a.AsSlice()).String() }
