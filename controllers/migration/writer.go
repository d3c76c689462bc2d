package migration

import (
	"context"
	"errors"
	"fmt"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

// errMoved says that the cluster is no longer what a step was made for. Nothing was written; a new plan knows better.
var errMoved = errors.New("the cluster has changed since the plan was made")

// writer carries out steps. Each is guarded by what the plan saw.
type writer interface {
	// apply carries out a step. The error is errMoved when the step has nothing to do any more, or something else to do.
	apply(ctx context.Context, s Step) error
}

// apiWriter writes through an API server.
type apiWriter struct {
	client     client.Client
	apiVersion string
}

func (w apiWriter) apply(ctx context.Context, s Step) error {
	switch s.Do {
	case CreateServiceCIDR:
		return w.createCIDR(ctx, s)
	case ReplaceServiceCIDR:
		return w.replaceCIDR(ctx, s)
	case CreateIPAddress:
		return w.create(ctx, upstream.NewIPAddress(s.Address, types.NamespacedName(s.Service)))
	case RelabelIPAddress:
		return w.relabel(ctx, s)
	case ReplaceIPAddress:
		if err := w.remove(ctx, s); err != nil {
			return err
		}
		return w.create(ctx, upstream.NewIPAddress(s.Address, types.NamespacedName(s.Service)))
	case DeleteIPAddress:
		return w.remove(ctx, s)
	default:
		return fmt.Errorf("the API server cannot carry out %q", s.Do)
	}
}

// create writes an object. A name that is taken may be our own write of which the answer got lost.
func (w apiWriter) create(ctx context.Context, o client.Object) error {
	err := retry(ctx, func() error {
		o.SetResourceVersion("") // of a try whose answer got lost
		return w.client.Create(ctx, o, client.FieldOwner(v1alpha1.ManagerMigration))
	})
	if apierrors.IsAlreadyExists(err) {
		return errMoved
	}
	return err
}

func (w apiWriter) remove(ctx context.Context, s Step) error {
	ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: s.Address.String()}}
	return w.removeObject(ctx, ip, s)
}

func (w apiWriter) removeObject(ctx context.Context, o client.Object, s Step) error {
	err := retry(ctx, func() error {
		return w.client.Delete(ctx, o, client.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion})
	})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errMoved
	}
	return err
}

// relabel applies the two labels alone, so that there is no moment in which the address is free.
func (w apiWriter) relabel(ctx context.Context, s Step) error {
	ip := networkingv1ac.IPAddress(s.Address.String()).WithAPIVersion(w.apiVersion).
		WithUID(s.UID).WithResourceVersion(s.ResourceVersion).WithLabels(upstream.Labels(s.Address))
	err := retry(ctx, func() error {
		return w.client.Apply(ctx, ip, client.FieldOwner(v1alpha1.ManagerMigration), client.ForceOwnership)
	})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errMoved
	}
	return err
}

func (w apiWriter) createCIDR(ctx context.Context, s Step) error {
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: defaultName}}
	for _, p := range s.CIDRs {
		cidr.Spec.CIDRs = append(cidr.Spec.CIDRs, p.String())
	}
	return w.create(ctx, cidr)
}

// replaceCIDR deletes the default ServiceCIDR and creates it as it should be. Kubernetes 1.32 takes the object for immutable.
func (w apiWriter) replaceCIDR(ctx context.Context, s Step) error {
	old := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: defaultName}}
	if err := w.removeObject(ctx, old, s); err != nil {
		return err
	}
	for tries := 0; ; tries++ { // somebody may have set a finalizer just now
		err := w.createCIDR(ctx, s)
		if !errors.Is(err, errMoved) || tries == 20 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
