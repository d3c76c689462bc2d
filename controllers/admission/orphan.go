package admission

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/relation"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// inWay reports whether an IPAddress is nothing but in the way of the Service that it names and
// that is being created; service is what the API server has of that name. It is a copy, such as a
// restore from a backup brings: to the API server the address is allocated, and repair waits for a
// minute, in which the Service of an IPAddress may be on its way.
//
// What an API server has written may be of a creation that goes on at this moment, for the
// IPAddress comes before the Service; or of a Service that has just been deleted, whose IPAddress
// is deleted next, by its name alone: that would hit the one of the new Service. A name in
// managedFields does not tell the two apart, for an API server signs as its program is called (k3s
// for one), and backups bring that name back. Their times do.
func inWay(ip *networkingv1.IPAddress, service *corev1.Service, name types.NamespacedName) bool {
	return service == nil && ip != nil && upstream.Service(ip) == name && upstream.ManagedByAPIServer(ip) &&
		ip.DeletionTimestamp.IsZero() && len(ip.Finalizers) == 0 && isCopy(ip)
}

// isCopy reports whether an object was written before it was created, as its managedFields say: a
// backup brings them along. Slow admission cannot make as much of a difference.
func isCopy(o metav1.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Time != nil && f.Time.Add(relation.Grace).Before(o.GetCreationTimestamp().Time)
	})
}

// freeOrphan deletes the IPAddress that was restored for the Service of the request before there is
// one. If it cannot, the API server refuses the Service, and repair frees the address.
func (h *ServiceSteerer) freeOrphan(ctx context.Context, in inputs, a netip.Addr) {
	of, ok := h.Index.Orphan(a)
	if in.old != nil || !ok || of != in.subject.NamespacedName || !in.policies.Offers(a) {
		return
	}
	logger := log.FromContext(ctx).WithValues("address", a, "service", in.subject.NamespacedName)
	freed, err := h.deleteOrphan(ctx, in.subject.NamespacedName, a)
	switch {
	case err != nil:
		logger.Info("An IPAddress in the way of its Service could not be deleted", "problem", err.Error())
	case freed:
		logger.Info("Deleted an IPAddress that was in the way of its Service")
		h.untilFree(ctx, a)
	}
}

// deleteOrphan asks the API server, and deletes what it has looked at and nothing else.
func (h *ServiceSteerer) deleteOrphan(ctx context.Context, name types.NamespacedName, a netip.Addr) (bool, error) {
	ip, err := objects.Get(ctx, h.Live, types.NamespacedName{Name: a.String()}, &networkingv1.IPAddress{})
	if err != nil {
		return false, fmt.Errorf("reading IPAddress %s: %w", a, err)
	}
	service, err := objects.Get(ctx, h.Live, name, &corev1.Service{})
	if err != nil {
		return false, fmt.Errorf("reading Service %s: %w", name, err)
	}
	if !inWay(ip, service, name) {
		return false, nil
	}
	err = h.Writer.Delete(ctx, upstream.Named(ip.Name), client.Preconditions{UID: &ip.UID, ResourceVersion: &ip.ResourceVersion})
	return err == nil, err
}

// untilFree waits until the watch has shown the deletion, so that the address can be taken. It
// looks again and again: the index wakes who waits for any address, and this is one address, once.
func (h *ServiceSteerer) untilFree(ctx context.Context, a netip.Addr) {
	const look = 5 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, busyFor)
	defer cancel()
	for h.Index.State(a) == allocator.Allocated {
		select {
		case <-ctx.Done():
			return
		case <-time.After(look):
		}
	}
}
