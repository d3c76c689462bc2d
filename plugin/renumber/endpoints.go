package renumber

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
)

// mostSlices is how many EndpointSlices of a Service are read. The controller writes one for each
// hundred of endpoints; another client may write as many as it likes.
const mostSlices = 100

// endpointSlices lists those of a Service.
func (m Mover) endpointSlices(ctx context.Context, of types.NamespacedName) ([]discoveryv1.EndpointSlice, error) {
	list := &discoveryv1.EndpointSliceList{}
	err := batch.Retry(ctx, func() error {
		return m.Client.List(ctx, list, client.InNamespace(of.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: of.Name}, client.Limit(mostSlices))
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("listing the EndpointSlices of Service %s: %w", of, err)
	case list.Continue != "":
		return nil, left("Service %s has more than %d EndpointSlices: plan it with --keep=agent or --keep=externalIPs", of, mostSlices)
	}
	return list.Items, nil
}

// copySlices gives a second Service endpoints before there is one, those of now: copies that a run
// which was killed has left may name pods that are gone.
func (m Mover) copySlices(ctx context.Context, i Item, a netip.Addr) error {
	first, err := m.endpointSlices(ctx, i.Key())
	if err != nil {
		return err
	}
	if name := handWritten(first); name != "" {
		return left("EndpointSlice %s/%s is not written by the EndpointSlice controller, so that no second Service would have its endpoints", i.Namespace, name)
	}
	if err := m.dropCopies(ctx, i, a); err != nil {
		return err
	}
	for _, c := range copiesFor(i, a, first) {
		err := batch.Retry(ctx, func() error { return m.Client.Create(ctx, c, client.FieldOwner(v1alpha1.ManagerRenumbering)) })
		if err != nil && !apierrors.IsAlreadyExists(err) { // an answer got lost, or a tenant has taken the name: the controller's own are waited for
			return fmt.Errorf("creating EndpointSlice %s/%s: %w", c.Namespace, c.Name, err)
		}
	}
	return nil
}

// slicesWithin is how long the EndpointSlice controller may take to see a new Service.
const slicesWithin = 30 * time.Second

// awaitSlices waits until the EndpointSlice controller has written those of a second Service, and
// they are enough: from then on they follow the pods. Meanwhile proxies learn of the copies.
func (m Mover) awaitSlices(ctx context.Context, i Item, a netip.Addr, enough func(netip.Addr, []discoveryv1.EndpointSlice, []discoveryv1.EndpointSlice) bool) error {
	for begun := m.Clock.Now(); ; {
		first, err := m.endpointSlices(ctx, i.Key())
		if err != nil {
			return err
		}
		second, err := m.endpointSlices(ctx, secondName(i, a))
		switch {
		case err != nil:
			return err
		case enough(a, first, second):
			return nil
		case m.Clock.Since(begun) > slicesWithin:
			return left("the EndpointSlice controller (kube-controller-manager) has not written the endpoints of Service %s in %v", secondName(i, a), slicesWithin)
		}
		if err := batch.Sleep(ctx, askEvery); err != nil {
			return err
		}
	}
}

// dropCopies deletes the copies for the second Service of an address. There are no more than are
// read at once: what a tenant writes beside them is not waited for, and keeps no address.
func (m Mover) dropCopies(ctx context.Context, i Item, a netip.Addr) error {
	second, list := secondName(i, a), &discoveryv1.EndpointSliceList{}
	copies := client.MatchingLabels{discoveryv1.LabelServiceName: second.Name, discoveryv1.LabelManagedBy: v1alpha1.ManagerRenumbering}
	if err := batch.Retry(ctx, func() error {
		return m.Client.List(ctx, list, client.InNamespace(second.Namespace), copies, client.Limit(mostSlices))
	}); err != nil {
		return fmt.Errorf("listing the copies of EndpointSlices for Service %s: %w", second, err)
	}
	for n := range list.Items {
		if err := m.delete(ctx, &list.Items[n]); err != nil {
			return fmt.Errorf("deleting EndpointSlice %s/%s: %w", second.Namespace, list.Items[n].Name, err)
		}
	}
	return nil
}
