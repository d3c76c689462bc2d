package reserve

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// apply writes the policies one after the other, and says of each what became of it, as kubectl
// does. Of a policy that is there only the reservations are written, and only as it was read: what
// another client has written meanwhile is never lost. It can be run again after any interruption.
func apply(ctx context.Context, a *cli.Session, s client.Client, before []v1alpha1.ServiceCIDRPolicy, wanted []*v1alpha1.ServiceCIDRPolicy, dryRun bool) error {
	suffix := ""
	if dryRun {
		suffix = " (server dry run)"
	}
	for _, o := range wanted {
		did, err := write(ctx, s, find(before, o.Name), o, dryRun)
		switch {
		case errors.Is(err, batch.ErrMoved):
			return fmt.Errorf("writing ServiceCIDRPolicy %s: another client has changed it since it was read; run it again", o.Name)
		case err != nil:
			return fmt.Errorf("writing ServiceCIDRPolicy %s: %w", o.Name, err)
		}
		a.Say("servicecidrpolicy.%s/%s %s%s", v1alpha1.GroupVersion.Group, o.Name, did, suffix)
	}
	return nil
}

func find(all []v1alpha1.ServiceCIDRPolicy, name string) *v1alpha1.ServiceCIDRPolicy {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

// write creates or changes one policy, and returns the word for it.
func write(ctx context.Context, s client.Client, before, want *v1alpha1.ServiceCIDRPolicy, dryRun bool) (did string, err error) {
	owner := client.FieldOwner(v1alpha1.ManagerReserve)
	if before == nil {
		options := []client.CreateOption{owner}
		if dryRun {
			options = append(options, client.DryRunAll)
		}
		return "created", batch.Guarded(ctx, func() error { return s.Create(ctx, want.DeepCopy(), options...) })
	}
	if equality.Semantic.DeepEqual(before.Spec, want.Spec) {
		return "unchanged", nil
	}
	options := []client.PatchOption{owner}
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return "configured", batch.Guarded(ctx, func() error { return s.Patch(ctx, want.DeepCopy(), patch, options...) })
}
