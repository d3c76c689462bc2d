package allocator_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// An address is drawn, written to the cluster, and observed there or forgotten.
func ExamplePool() {
	r, err := allocator.ParseRange("10.96.0.0/30")
	if err != nil {
		fmt.Println(err)
		return
	}
	pool := allocator.NewPool()
	tier, err := allocator.NewTier([]allocator.Span{r.Band(allocator.Dynamic)}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	lot := allocator.Lot{Tiers: []*allocator.Tier{tier}}

	first, _ := pool.Draw(lot)
	pool.Observe(first.Addr, allocator.Allocated) // the API server accepted it
	second, _ := pool.Draw(lot)
	pool.Forget(second.Addr) // the API server refused it

	fmt.Printf("%+v\n", pool.Usage(r.Span()))
	fmt.Println(pool.State(first.Addr), pool.State(second.Addr))
	// Output:
	// {Size:2 Allocated:1 Reserved:0 Cooling:0 Free:1}
	// allocated free
}

// A cooling address is kept for as long as there is another one.
func ExampleLot_yield() {
	r, _ := allocator.ParseRange("fd00::/127")
	pool := allocator.NewPool()
	pool.Cool(r.Span().First, time.Unix(1_700_000_000, 0))

	tier, _ := allocator.NewTier([]allocator.Span{r.Span()}, nil)
	lot := allocator.Lot{Tiers: []*allocator.Tier{tier}}
	_, err := pool.Draw(lot)
	fmt.Println(err, errors.Is(err, allocator.ErrFull))

	lot.Yield = true
	drawn, _ := pool.Draw(lot)
	fmt.Println(drawn.Addr, drawn.Cooled)
	// Output:
	// no free address: of 1 to draw from 0 are allocated, 0 reserved and 1 cooling true
	// fd00::1 true
}

func ExampleRange_Band() {
	for _, prefix := range []string{"10.96.0.0/16", "10.96.0.0/27", "10.96.0.0/28"} {
		r, _ := allocator.ParseRange(prefix)
		fmt.Printf("%s: static %s, dynamic %s\n", r, r.Band(allocator.Static), r.Band(allocator.Dynamic))
	}
	// Output:
	// 10.96.0.0/16: static 10.96.0.1-10.96.1.0, dynamic 10.96.1.1-10.96.255.254
	// 10.96.0.0/27: static 10.96.0.1-10.96.0.16, dynamic 10.96.0.17-10.96.0.30
	// 10.96.0.0/28: static empty, dynamic 10.96.0.1-10.96.0.14
}

func ExampleSpan_Subtract() {
	r, _ := allocator.ParseRange("10.0.0.0/24")
	inner, _ := allocator.ParseRange("10.0.0.64/26")
	fmt.Println(r.Span().Subtract(inner.Span()))
	// Output: [10.0.0.1-10.0.0.64 10.0.0.127-10.0.0.254]
}

func ExampleSet_NthFree() {
	r, _ := allocator.ParseRange("10.0.0.0/24")
	var used allocator.Set
	used.Insert(r.Span().First)
	a, ok := used.NthFree(r.Span(), 0)
	fmt.Println(a, ok)
	// Output: 10.0.0.2 true
}
