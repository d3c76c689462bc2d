package allocator_test

import (
	"fmt"

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
	request := allocator.Request{Tiers: []*allocator.Tier{tier}}

	first, _ := pool.Draw(request)
	pool.Observe(first.Addr, allocator.Allocated) // the API server accepted it
	second, _ := pool.Draw(request)
	pool.Forget(second.Addr) // the API server refused it

	fmt.Printf("%+v\n", pool.Usage(r.Span()))
	fmt.Println(pool.State(first.Addr), pool.State(second.Addr))
	// Output:
	// {Size:2 Allocated:1 Reserved:0 Cooling:0 Free:1 Assumed:0}
	// allocated free
}
