// Package peer measures the allocators of the API server as package allocator measures ours: the
// bitmap that it keeps up to 1.32, and the one over IPAddress objects since. It holds nothing but
// benchmarks and is a module of its own, so that the operator never depends on k8s.io/kubernetes.
//
// The names are those of the benchmarks of package allocator. To set them side by side:
//
//	go test -run '^$' -bench Allocate -count 6 ./allocator | tee ours.txt
//	(cd hack/tools/peer-allocator && go test -run '^$' -bench Allocate -count 6 .) | tee upstream.txt
//	benchstat -ignore pkg -col /impl ours.txt upstream.txt
//
// What is measured is arithmetic alone. The allocator over IPAddress objects is set up as the API
// server does it, with an informer and with its metrics on, for which it lists all objects four
// times per operation. But writing an object goes to the informer's memory and costs next to
// nothing. One operation is an allocation and its release, at a constant fill. It takes seconds
// where a million objects exist, and such a fill needs 1.4 GB of memory.
package peer
