// Command peer-allocation runs upstream's ClusterIP allocator outside of the API server, so that it can be measured
// beside ours, and fills an etcd with Services as the API server would have stored them.
//
//	peer-allocation allocate --kubeconfig FILE --workers 8 --count 500 --limit 8s
//	peer-allocation seed --etcd URL --template NAMESPACE/NAME --kind ipaddresses --from 0 --to 10000 --range 10.96.0.0/12
//	peer-allocation seed --etcd URL --template NAMESPACE/NAME --kind bitmaps --to 10000 --range 10.96.0.0/12,fd00:10:96::/108
//
// Both print one JSON object. allocate sets ipallocator.MetaAllocator up as kube-apiserver does: the same client
// settings (protobuf, no rate limit, no compression), shared informers, metrics on. seed writes to etcd because
// a full cluster could not be had otherwise in the time of a benchmark: the more Services exist, the longer the API
// server takes for the next one.
//
// Start with main.go; allocate.go and seed.go hold one subcommand each, bitmap.go what older API servers allocate from.
package main
