package cleanup

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (o Options) refuseIfRunning(ctx context.Context) error {
	if o.Force || o.DryRun {
		return nil
	}
	lease := &coordinationv1.Lease{}
	if err := o.Client.Get(ctx, o.Lease, lease); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Lease %s: %w", o.Lease, err)
	}
	if holder := holder(lease, o.Now); holder != "" {
		return fmt.Errorf("the manager %s is running and would write everything anew; scale its Deployment to 0 first, or use --force", holder)
	}
	return nil
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
