package allocator_test

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// An address is drawn, written to the cluster, and committed or forgotten.
func ExamplePool() {
	r, err := allocator.ParseRange("10.96.0.0/30")
	if err != nil {
		fmt.Println(err)
		return
	}
	pool := allocator.NewPool(allocator.WithRand(rand.NewPCG(1, 2)))
	choice := allocator.Choice{Ranges: []allocator.Candidate{{Range: r}}}

	first, _ := pool.Reserve(choice)
	pool.Commit(first) // the API server accepted it
	second, _ := pool.Reserve(choice)
	pool.Forget(second) // the API server refused it

	fmt.Printf("%+v\n", pool.Usage(r.Span()))
	fmt.Println(pool.State(first), pool.State(second))
	// Output:
	// {Size:2 Allocated:1 Reserved:0 Cooling:0 Free:1}
	// allocated free
}

// A cooling address is kept for as long as there is another one.
func ExampleChoice_yieldCooling() {
	r, _ := allocator.ParseRange("fd00::/127")
	pool := allocator.NewPool()
	pool.Observe(r.Span().First, allocator.Cooling)

	choice := allocator.Choice{Ranges: []allocator.Candidate{{Range: r}}}
	_, err := pool.Reserve(choice)
	fmt.Println(err, errors.Is(err, allocator.ErrFull))

	choice.YieldCooling = true
	fmt.Println(pool.Reserve(choice))
	// Output:
	// no free address in fd00::/127: of 1 usable ones 0 are allocated, 0 reserved, 1 cooling and 0 excluded true
	// fd00::1 <nil>
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
