package migration

import (
	"context"
	"errors"
	"fmt"
	"time"

	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// apiWriter carries out steps through the API server; batch.ErrMoved means that one is out of date.
type apiWriter Sources

func (w apiWriter) apply(ctx context.Context, s Step) error {
	switch s.Do {
	case CreateServiceCIDR, CreateIPAddress:
		return w.create(ctx, s)
	case RelabelIPAddress:
		return w.relabel(ctx, s)
	case ReplaceServiceCIDR, ReplaceIPAddress:
		return w.replace(ctx, s)
	case DeleteIPAddress:
		return w.remove(ctx, s)
	default:
		return fmt.Errorf("the API server cannot carry out %q", s.Do)
	}
}

func (w apiWriter) create(ctx context.Context, s Step) error {
	return batch.Guarded(ctx, func() error { return w.API.Create(ctx, s.object(), client.FieldOwner(v1alpha1.ManagerMigration)) })
}

func (w apiWriter) remove(ctx context.Context, s Step) error {
	return batch.Guarded(ctx, func() error {
		return w.API.Delete(ctx, s.object(), client.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion})
	})
}

// relabel applies the two labels alone, so that there is no moment in which the address is free.
func (w apiWriter) relabel(ctx context.Context, s Step) error {
	ip := networkingv1ac.IPAddress(s.Address.String()).WithAPIVersion(w.APIVersion).
		WithUID(s.UID).WithResourceVersion(s.ResourceVersion).WithLabels(upstream.Labels(s.Address))
	return batch.Guarded(ctx, func() error {
		return w.API.Apply(ctx, ip, client.FieldOwner(v1alpha1.ManagerMigration), client.ForceOwnership)
	})
}

// replace deletes and creates: an IPAddress's parent cannot be changed, nor a ServiceCIDR in 1.32.
func (w apiWriter) replace(ctx context.Context, s Step) error {
	if err := w.remove(ctx, s); err != nil {
		return err
	}
	err := w.create(ctx, s)
	for tries := 0; s.Do == ReplaceServiceCIDR && errors.Is(err, batch.ErrMoved) && tries < 20; tries++ { // another client may have set a finalizer just now
		if err = batch.Sleep(ctx, 100*time.Millisecond); err == nil {
			err = w.create(ctx, s)
		}
	}
	return err
}
