// Package micro reads the output of `go test -bench` that hack/bench.sh keeps, and puts implementations side by side.
//
// The name of a benchmark is like BenchmarkAllocate/impl=ours/prefix=24/used=99: whatever follows impl is the case, and must be
// spelled alike by all implementations. Where impl is missing there is but one. Start with Output.
package micro
