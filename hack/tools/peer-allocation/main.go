// Command peer-allocation runs upstream's ClusterIP allocator alone, to measure it beside ours.
//
//	peer-allocation --kubeconfig FILE --workers 8 --count 500 --limit 8s
//
// It prints one JSON object, and sets ipallocator.MetaAllocator up as kube-apiserver does: the same
// client settings (protobuf, no rate limit, no compression), shared informers, metrics on.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := allocate(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peer-allocation:", err)
		os.Exit(1)
	}
}
