package inventory

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
)

// quiet is how long nothing may happen in a cluster that has settled.
const quiet = time.Second

// Settled waits until an API server has written everything that it writes after its start, which goes on for some seconds
// after it is ready, and takes down what there is then. Call it while nobody else writes.
func Settled(ctx context.Context, config *rest.Config) (Objects, error) {
	before, err := Everything(ctx, config)
	for err == nil {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the cluster to settle: %w", context.Cause(ctx))
		case <-time.After(quiet):
		}
		var after Objects
		if after, err = Everything(ctx, config); err == nil && len(before.Changes(after)) == 0 {
			return after, nil
		}
		before = after
	}
	return nil, err
}
