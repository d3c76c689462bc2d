package main

import (
	"context"
	"fmt"
	"math/big"
	"net/netip"
	"net/url"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/cmd/kubectl-clusterip/console"
)

// consoleMap is a part of the address space as the console draws it.
type consoleMap struct {
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
const consoleBits = 12

// chart draws the part that a CIDR names; the first range without one.
func (d *consoleData) chart(ctx context.Context, query url.Values) (any, error) {
	cidrs, _, err := d.session.rangesAndPolicies(ctx)
	if err != nil {
		return nil, err
	}
	all := mapRanges(cidrs.Items)
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: there is no ServiceCIDR", console.ErrQuestion)
	}
	what := query.Get("cidr")
	if what == "" {
		what = all[0].CIDR
	}
	parts, err := rangesToDraw(what, cidrs.Items)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", console.ErrQuestion, err)
	}
	wrong, err := d.wrong()
	if err != nil {
		return nil, err
	}
	return newConsoleMap(newChart(parts[0], consoleBits, d.view.Usage, wrong), parts[0].of, all), nil
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

func newConsoleMap(c chart, of allocator.Range, all []mapRange) consoleMap {
	m := consoleMap{Ranges: all, CIDR: c.prefix.String(), Of: of.String(), First: decimal(c.prefix.Addr()), Bits: c.bits, Dynamic: -1, Wrong: []int{}}
	for i, one := range c.cells {
		m.Allocated, m.Reserved, m.Cooling = append(m.Allocated, one.usage.Allocated), append(m.Reserved, one.usage.Reserved), append(m.Cooling, one.usage.Cooling)
		if one.wrong {
			m.Wrong = append(m.Wrong, i)
		}
		if one.dynamic() && m.Dynamic < 0 {
			m.Dynamic = i
		}
	}
	return m
}

// decimal writes an address as a number.
func decimal(a netip.Addr) string { return new(big.Int).SetBytes(a.AsSlice()).String() }
