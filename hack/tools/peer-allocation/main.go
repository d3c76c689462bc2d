// Command peer-allocation runs upstream's ClusterIP allocator outside of the API server, so that it can be measured
// beside ours, and fills an etcd with Services as the API server would have stored them.
//
//	peer-allocation allocate --kubeconfig FILE --workers 8 --count 500 --limit 8s
//	peer-allocation seed --etcd URL --template NAMESPACE/NAME --kind ipaddresses --from 0 --to 10000 --range 10.96.0.0/12
//	peer-allocation seed --etcd URL --template NAMESPACE/NAME --kind bitmaps --to 10000 --range 10.96.0.0/12,fd00:10:96::/108
//
// allocate prints one JSON object. It sets ipallocator.MetaAllocator up as kube-apiserver does: the same client
// settings (protobuf, no rate limit, no compression), shared informers, metrics on. seed writes to etcd because
// a full cluster could not be had otherwise in the time of a benchmark: the more Services exist, the longer the API
// server takes for the next one.
//
// allocate.go and seed.go hold one subcommand each, storage.go what the API server has in etcd.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peer-allocation:", err)
		os.Exit(1)
	}
}

// run runs the subcommand that the first argument names.
func run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0 && args[0] == "allocate":
		return allocate(ctx, args[1:])
	case len(args) > 0 && args[0] == "seed":
		return seed(ctx, args[1:])
	default:
		return errors.New("say allocate or seed")
	}
}
