package allocator_test

import (
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
	fmt.Println(err)

	lot.Yield = true
	drawn, _ := pool.Draw(lot)
	fmt.Println(drawn.Addr, drawn.Cooled)
	// Output:
	// no free address
	// fd00::1 true
}
