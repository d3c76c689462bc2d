package steering

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Changes is a source of keys: when the policies change, or somebody calls Touch, it queues what differ returns. Comparing is done apart
// from the subscription, which must not block; what changes meanwhile is compared next.
type Changes[K comparable] struct {
	policies *Cache
	differ   func() []K
	touched  chan struct{}
}

var _ source.TypedSyncingSource[string] = (*Changes[string])(nil)

// NewChanges returns a source. differ returns the keys of whatever is not as it was when it was last asked.
func NewChanges[K comparable](p *Cache, differ func() []K) *Changes[K] {
	return &Changes[K]{policies: p, differ: differ, touched: make(chan struct{}, 1)}
}

// Touch asks for a comparison.
func (c *Changes[K]) Touch() {
	select {
	case c.touched <- struct{}{}:
	default:
	}
}

// Start implements source.TypedSource. It subscribes before it compares, so that nothing falls between the two.
func (c *Changes[K]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[K]) error {
	c.policies.Subscribe(func(_, _ *Compiled) { c.Touch() })
	c.Touch()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.touched:
			}
			for _, key := range c.differ() {
				queue.Add(key)
			}
		}
	}()
	return nil
}

// WaitForSync implements source.TypedSyncingSource: half of the policies would open what the others close, and give up what they reserve.
func (c *Changes[K]) WaitForSync(ctx context.Context) error {
	synced := func(context.Context) (bool, error) { return c.policies.Synced(), nil }
	if err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, synced); err != nil {
		return fmt.Errorf("waiting for the policies: %w", err)
	}
	return nil
}

// String names the source in the controller's log.
func (c *Changes[K]) String() string { return "policies" }
