package ipaddress

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// BandLabeler writes the label clusterip-operator.io/band on the IPAddresses of the API server's
// allocator. It has a queue and one worker of its own, so that a whole range to label never stands
// before a repair. All fields are required.
type BandLabeler struct {
	// Client bounds the writes: a label is never urgent.
	Client     client.Client
	Index      *addressindex.Index
	APIVersion string
}

// SetupWithManager starts the controller with mgr.
func (b *BandLabeler) SetupWithManager(mgr manager.Manager) error {
	return loop.Setup(mgr, loop.Options{Name: "bandlabel", Workers: 1, Retry: time.Second, LongestRetry: 5 * time.Minute}, b,
		b.Index.Addresses(), b.Index.Covers())
}

// Reconcile compares the label with the band and applies it if they differ.
func (b *BandLabeler) Reconcile(ctx context.Context, a netip.Addr) (reconcile.Result, error) {
	ip, err := objects.Get(ctx, b.Client, types.NamespacedName{Name: a.String()}, &networkingv1.IPAddress{})
	if err != nil || ip == nil {
		return reconcile.Result{}, err
	}
	band, offered := b.Index.BandOf(a)
	if !upstream.ManagedByAPIServer(ip) || !offered || ip.Labels[v1alpha1.LabelBand] == band.String() {
		return reconcile.Result{}, nil
	}
	// The UID keeps the apply from bringing an address back that was released in the meantime.
	apply := networkingv1ac.IPAddress(ip.Name).WithAPIVersion(b.APIVersion).WithUID(ip.UID).
		WithLabels(map[string]string{v1alpha1.LabelBand: band.String()})
	err = b.Client.Apply(ctx, apply, client.FieldOwner(v1alpha1.ManagerBand), client.ForceOwnership)
	if objects.IgnoreGone(err) != nil {
		return reconcile.Result{}, fmt.Errorf("labelling IPAddress %s with its band: %w", a, err)
	}
	return reconcile.Result{}, nil
}
