package cluster

import (
	"context"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

// IPAddress returns an IPAddress, nil if there is none.
func (c *Cluster) IPAddress(ctx context.Context, address string) *networkingv1.IPAddress {
	GinkgoHelper()
	ip, err := c.Networking().IPAddresses().Get(ctx, address, metav1.GetOptions{})
	return suite.UnlessGone(ip, err)
}

// IPAddresses returns all IPAddresses of the cluster.
func (c *Cluster) IPAddresses(ctx context.Context) []networkingv1.IPAddress {
	GinkgoHelper()
	list := suite.Must(c.Networking().IPAddresses().List(ctx, metav1.ListOptions{}))
	return list.Items
}

// CreateIPAddress creates an IPAddress.
func (c *Cluster) CreateIPAddress(ctx context.Context, ip *networkingv1.IPAddress) *networkingv1.IPAddress {
	GinkgoHelper()
	return suite.Must(c.Networking().IPAddresses().Create(ctx, ip, metav1.CreateOptions{}))
}

// DeleteIPAddress deletes an IPAddress.
func (c *Cluster) DeleteIPAddress(ctx context.Context, address string) {
	GinkgoHelper()
	Expect(c.Networking().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})).To(Succeed())
}

// FreeLeaked deletes the IPAddresses of Services that are gone or have no addresses any more, and
// returns their names. The API server's repair (repairip.go) goes by caches. If they still have a
// Service as it was before, and its IPAddress no more, the repair writes that again, and deletes it
// only after a minute. Call FreeLeaked while no client creates Services, or gives one addresses:
// the API server writes the IPAddress first.
func (c *Cluster) FreeLeaked(ctx context.Context) (freed []string) {
	GinkgoHelper()
	for _, ip := range c.IPAddresses(ctx) {
		if c.freeLeaked(ctx, &ip) {
			freed = append(freed, ip.Name)
		}
	}
	return freed
}

// freeLeaked is FreeLeaked for one IPAddress, which may be nil.
func (c *Cluster) freeLeaked(ctx context.Context, ip *networkingv1.IPAddress) bool {
	GinkgoHelper()
	if ip == nil || ip.Spec.ParentRef == nil || ip.Spec.ParentRef.Resource != "services" {
		return false
	}
	parent := ip.Spec.ParentRef
	service, err := c.Client().CoreV1().Services(parent.Namespace).Get(ctx, parent.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) && (err != nil || len(service.Spec.ClusterIPs) > 0) {
		return false
	}
	err = c.Networking().IPAddresses().Delete(ctx, ip.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &ip.UID}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsForbidden(err) {
		return false // the API server was faster, or a replica's cache still has the Service
	}
	Expect(err).NotTo(HaveOccurred())
	return true
}

// PatchIPAddress merges a patch into an IPAddress.
func (c *Cluster) PatchIPAddress(ctx context.Context, address, patch string) {
	GinkgoHelper()
	suite.Must(c.Networking().IPAddresses().Patch(ctx, address, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))
}

// Owner returns which Service an IPAddress names, as namespace/name; if it names another object,
// its resource comes first. It is empty if there is no such IPAddress.
func (c *Cluster) Owner(ctx context.Context, address string) string {
	GinkgoHelper()
	return ownerOf(c.IPAddress(ctx, address))
}

func ownerOf(ip *networkingv1.IPAddress) string {
	if ip == nil || ip.Spec.ParentRef == nil {
		return ""
	}
	parent := ip.Spec.ParentRef
	if parent.Group == "" && parent.Resource == "services" {
		return parent.Namespace + "/" + parent.Name
	}
	return parent.Resource + " " + parent.Namespace + "/" + parent.Name
}

// Labels returns those of an IPAddress, none if there is no such IPAddress.
func (c *Cluster) Labels(ctx context.Context, address string) map[string]string {
	GinkgoHelper()
	if ip := c.IPAddress(ctx, address); ip != nil {
		return ip.Labels
	}
	return nil
}

// Breaches lists what is wrong with the relation between the addresses of Services and IPAddresses.
func (c *Cluster) Breaches(ctx context.Context) []string {
	GinkgoHelper()
	return suite.Must(inventory.Findings(ctx, c.Access))
}

// Everything takes down all objects but those of the resources left out, and the events of an API
// server's repair: it repeats at any time what it has said of the Services of an earlier spec.
func (c *Cluster) Everything(ctx context.Context, leftOut ...string) inventory.Objects {
	GinkgoHelper()
	objects := suite.Must(inventory.Everything(ctx, c.AdminConfig()))
	maps.DeleteFunc(objects, func(_ string, o *unstructured.Unstructured) bool {
		return o.Object["reportingController"] == "ipallocator-repair-controller"
	})
	return objects.Without(leftOut...)
}

// Untouched wants every object to be after do as it was before.
func (c *Cluster) Untouched(ctx context.Context, do func()) {
	GinkgoHelper()
	before := c.Everything(ctx)
	do()
	Expect(before.Changes(c.Everything(ctx))).To(BeEmpty())
}

// Ours returns the IPAddresses that the operator keeps for itself, in the order of their names.
func (c *Cluster) Ours(ctx context.Context) []networkingv1.IPAddress {
	GinkgoHelper()
	return slices.DeleteFunc(c.IPAddresses(ctx), func(ip networkingv1.IPAddress) bool {
		return ip.Labels[networkingv1.LabelManagedBy] != ManagedByUs
	})
}

// Kept returns the addresses that the operator keeps for a purpose.
func (c *Cluster) Kept(ctx context.Context, purpose string) (addresses []string) {
	GinkgoHelper()
	for _, ip := range c.Ours(ctx) {
		if ip.Labels[PurposeLabel] == purpose {
			addresses = append(addresses, ip.Name)
		}
	}
	return addresses
}

// KeptBy returns the addresses that the operator keeps for a policy.
func (c *Cluster) KeptBy(ctx context.Context, policy string) (addresses []string) {
	GinkgoHelper()
	for _, ip := range c.Ours(ctx) {
		if parent := ip.Spec.ParentRef; parent != nil && parent.Resource == "servicecidrpolicies" && parent.Name == policy {
			addresses = append(addresses, ip.Name)
		}
	}
	return addresses
}

// Purpose returns what the operator keeps an address for, empty if it does not.
func (c *Cluster) Purpose(ctx context.Context, address string) string {
	GinkgoHelper()
	labels := c.Labels(ctx, address)
	if labels[networkingv1.LabelManagedBy] != ManagedByUs {
		return ""
	}
	return labels[PurposeLabel]
}
