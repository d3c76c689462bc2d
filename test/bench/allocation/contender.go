package allocation

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
)

// contender is a way to get addresses.
type contender interface {
	// allocate takes addresses. Getting ready, such as filling a cache, is not part of the measurement.
	allocate(ctx context.Context, l load.Load) (measurement, error)
	// release gives back what the last allocate took.
	release(ctx context.Context) error
}

// measurement is one turn of a contender. Latencies are in milliseconds.
type measurement struct {
	Count     int
	PerSecond float64
	P50, P99  float64
}

func measured(o load.Outcome) measurement {
	return measurement{o.Calls, o.PerSecond(), o.Latencies.Median(), o.Latencies.Quantile(0.99)}
}

// giveBack is the load that takes away what a contender left behind: it is not measured, only to be over soon.
func giveBack(count int) load.Load { return load.Load{Workers: 16, Count: count} }

// deleteAddresses deletes IPAddresses that belong to no Service. The API server would do that too, after a minute.
func deleteAddresses(ctx context.Context, c *cluster.Cluster, names []string) error {
	_, err := giveBack(len(names)).Run(ctx, func(ctx context.Context, i int) error {
		err := c.Client.NetworkingV1().IPAddresses().Delete(ctx, names[i], metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting IPAddress %s: %w", names[i], err)
		}
		return nil
	})
	return err
}

// grace is how long an address may be without its Service before the API server takes it away: no turn may come near.
const grace = 60 * time.Second
