package cleanup

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/replicas"
)

func (o Options) refuseIfRunning(ctx context.Context) error {
	if o.Force || o.DryRun {
		return nil
	}
	leases, err := o.leases(ctx)
	if err != nil {
		return err
	}
	for i := range leases {
		if holder := holder(&leases[i], o.Now); holder != "" {
			return fmt.Errorf("the manager %s is running and would write everything anew; scale its Deployment to 0 first, or use --force", holder)
		}
	}
	return nil
}

// leases are that of the leader and those of the replicas, as far as they are there.
func (o Options) leases(ctx context.Context) ([]coordinationv1.Lease, error) {
	leader := coordinationv1.Lease{}
	if err := o.Client.Get(ctx, o.Lease, &leader); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Lease %s: %w", o.Lease, err)
	}
	others, err := o.replicas(ctx)
	return append([]coordinationv1.Lease{leader}, others...), err
}

// replicas are the Leases by which replicas that serve webhooks know one another.
func (o Options) replicas(ctx context.Context) ([]coordinationv1.Lease, error) {
	list := &coordinationv1.LeaseList{}
	if err := o.Client.List(ctx, list, client.InNamespace(o.Namespace), client.MatchingLabels{replicas.Label: replicas.LabelValue}); err != nil {
		return nil, fmt.Errorf("listing the Leases of the replicas: %w", err)
	}
	return list.Items, nil
}

// holder is who renewed the Lease within its duration.
func holder(l *coordinationv1.Lease, now time.Time) string {
	s := l.Spec
	if s.HolderIdentity == nil || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return ""
	}
	if now.Sub(s.RenewTime.Time) > time.Duration(*s.LeaseDurationSeconds)*time.Second {
		return ""
	}
	return *s.HolderIdentity
}
