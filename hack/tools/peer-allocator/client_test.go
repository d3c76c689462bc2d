package peer

import (
	"context"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	networkingv1informers "k8s.io/client-go/informers/networking/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
)

// client writes IPAddress objects straight into the memory of the informer: such a write costs next
// to nothing and is seen at once.
type client struct {
	networkingv1client.NetworkingV1Interface
	store cache.Indexer
}

func (c client) IPAddresses() networkingv1client.IPAddressInterface {
	return ipAddresses{store: c.store}
}

type ipAddresses struct {
	networkingv1client.IPAddressInterface
	store cache.Indexer
}

func (c ipAddresses) Create(_ context.Context, o *networkingv1.IPAddress, _ metav1.CreateOptions) (*networkingv1.IPAddress, error) {
	if _, exists, _ := c.store.Get(o); exists {
		return nil, apierrors.NewAlreadyExists(networkingv1.Resource("ipaddresses"), o.Name)
	}
	return o, c.store.Add(o)
}

func (c ipAddresses) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	return c.store.Delete(&networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// newInformer returns an informer that watches nothing: its memory is filled by hand.
func newInformer() networkingv1informers.IPAddressInformer {
	return filled{informers.NewSharedInformerFactory(nil, 0).Networking().V1().IPAddresses()}
}

type filled struct {
	networkingv1informers.IPAddressInformer
}

func (f filled) Informer() cache.SharedIndexInformer { return synced{f.IPAddressInformer.Informer()} }

// synced is an informer that says it has seen everything.
type synced struct{ cache.SharedIndexInformer }

func (synced) HasSynced() bool { return true }

// newIPAddress returns the object of an address that some Service has.
func newIPAddress(ip netip.Addr) *networkingv1.IPAddress {
	family := "IPv4"
	if ip.Is6() {
		family = "IPv6"
	}
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: ip.String(),
			Labels: map[string]string{
				networkingv1.LabelIPAddressFamily: family,
				networkingv1.LabelManagedBy:       ipallocator.ControllerName,
			},
		},
		Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "bench"},
		},
	}
}
