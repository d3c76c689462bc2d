package operation

import (
	"context"
	"fmt"
	"sync"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

const (
	deleters = 16
	// restoreTimeout is longer than the three minutes between two full repairs by the API server.
	restoreTimeout = 6 * time.Minute
)

// Restored is the way back of deleted IPAddresses.
type Restored struct {
	// Total is the time from the first deletion until all are back, Deleting that of the deletions.
	Total, Deleting time.Duration
	// Seconds is, for each, the time from the end of its deletion to its return.
	Seconds stats.Sample
	// Ours is how many the operator restored; the API server may have restored the rest first.
	Ours int
}

// absence keeps the time of each deletion until the address is back.
type absence struct {
	mu      sync.Mutex
	deleted map[string]time.Time
}

// restore deletes n IPAddresses of living Services and waits until all are back.
func restore(ctx context.Context, c *cluster.Cluster, n int) (r Restored, err error) {
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	names, version, err := victims(ctx, c, n)
	if err != nil {
		return r, err
	}
	events, err := c.Client.NetworkingV1().IPAddresses().Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return r, fmt.Errorf("watching IPAddresses: %w", err)
	}
	defer events.Stop()

	v := &absence{deleted: map[string]time.Time{}}
	start, deletions := time.Now(), make(chan error, 1)
	var deleted load.Outcome
	go func() {
		outcome, err := v.deleteAll(ctx, c, names)
		deleted = outcome
		deletions <- err
	}()
	for pending := true; pending || len(r.Seconds) < n; {
		select {
		case <-ctx.Done():
			return r, fmt.Errorf("%d of %d deleted IPAddresses came back: %w", len(r.Seconds), n, context.Cause(ctx))
		case err := <-deletions:
			if err != nil {
				return r, err
			}
			r.Deleting, pending = deleted.Elapsed, false
		case e, open := <-events.ResultChan():
			if !open {
				return r, fmt.Errorf("the watch of IPAddresses ended with %d of %d back", len(r.Seconds), n)
			}
			v.observe(e, &r)
		}
	}
	r.Total = time.Since(start)
	return r, nil
}

// victims returns the IPAddresses of n copied Services, and the version at which they were listed.
func victims(ctx context.Context, c *cluster.Cluster, n int) (names []string, version string, err error) {
	list, err := c.Client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("listing IPAddresses: %w", err)
	}
	for _, ip := range list.Items {
		if len(names) < n && cluster.IsCopy(ip.Spec.ParentRef.Name) {
			names = append(names, ip.Name)
		}
	}
	if len(names) < n {
		return nil, "", fmt.Errorf("there are only %d IPAddresses to delete, not %d", len(names), n)
	}
	return names, list.ResourceVersion, nil
}

func (v *absence) deleteAll(ctx context.Context, c *cluster.Cluster, names []string) (load.Outcome, error) {
	return load.Load{Workers: deleters, Count: len(names)}.Run(ctx, func(ctx context.Context, i int) error {
		if err := c.Client.NetworkingV1().IPAddresses().Delete(ctx, names[i], metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("deleting IPAddress %s: %w", names[i], err)
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		v.deleted[names[i]] = time.Now()
		return nil
	})
}

// observe counts the return of an address. Back before its deletion was answered counts as no time.
func (v *absence) observe(e watch.Event, r *Restored) {
	ip, ok := e.Object.(*networkingv1.IPAddress)
	if !ok || e.Type != watch.Added {
		return
	}
	v.mu.Lock()
	gone, answered := v.deleted[ip.Name]
	v.mu.Unlock()
	took := 0.0
	if answered {
		took = time.Since(gone).Seconds()
	}
	r.Seconds = append(r.Seconds, took)
	for _, field := range ip.ManagedFields {
		if field.Manager == v1alpha1.ManagerIPAddress {
			r.Ours++
		}
	}
}
