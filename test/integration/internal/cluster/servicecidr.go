package cluster

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// CreateServiceCIDR creates a ServiceCIDR and waits for no controller.
func (c *Cluster) CreateServiceCIDR(ctx context.Context, name string, cidrs ...string) {
	GinkgoHelper()
	suite.Must(c.Networking().ServiceCIDRs().Create(ctx, framework.NewServiceCIDR(name, cidrs...), metav1.CreateOptions{}))
}

// finalizers are those that a ServiceCIDR gets from the controllers of the cluster.
func (c *Cluster) finalizers() (all []string) {
	if c.Operator != nil {
		all = append(all, OurFinalizer)
	}
	if c.Upstream != nil {
		all = append(all, UpstreamFinalizer)
	}
	return all
}

// WaitLookedAfter waits until the ServiceCIDRs are Ready and have the finalizer of each controller.
func (c *Cluster) WaitLookedAfter(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Eventually(func(g Gomega) {
			cidr := c.ServiceCIDR(ctx, name)
			g.Expect(cidr).NotTo(BeNil())
			g.Expect(cidr.Finalizers).To(ContainElements(c.finalizers()))
			ready := metav1.ConditionTrue
			if name == "kubernetes" && c.Condition(ctx, name, Ready).Status == "" {
				ready = "" // no API server says so as long as the bitmap is used
			}
			g.Expect(c.Condition(ctx, name, Ready).Status).To(Equal(ready))
		}).Should(Succeed(), name)
	}
}

// DeleteServiceCIDRs asks for the deletion of ServiceCIDRs, one by one, and does not wait for it.
func (c *Cluster) DeleteServiceCIDRs(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Expect(c.Networking().ServiceCIDRs().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed(), name)
	}
}

// ServiceCIDR returns a ServiceCIDR, nil if there is none.
func (c *Cluster) ServiceCIDR(ctx context.Context, name string) *networkingv1.ServiceCIDR {
	GinkgoHelper()
	cidr, err := c.Networking().ServiceCIDRs().Get(ctx, name, metav1.GetOptions{})
	return suite.UnlessGone(cidr, err)
}

// ServiceCIDRs returns all ServiceCIDRs of the cluster.
func (c *Cluster) ServiceCIDRs(ctx context.Context) []networkingv1.ServiceCIDR {
	GinkgoHelper()
	list := suite.Must(c.Networking().ServiceCIDRs().List(ctx, metav1.ListOptions{}))
	return list.Items
}

// Remaining returns those of the named ServiceCIDRs that exist, deletion asked for or not.
func (c *Cluster) Remaining(ctx context.Context, names ...string) []string {
	GinkgoHelper()
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return c.ServiceCIDR(ctx, name) == nil })
}

// Condition returns a condition of a ServiceCIDR, the zero Condition if there is none.
func (c *Cluster) Condition(ctx context.Context, name, kind string) metav1.Condition {
	GinkgoHelper()
	if cidr := c.ServiceCIDR(ctx, name); cidr != nil {
		if condition := meta.FindStatusCondition(cidr.Status.Conditions, kind); condition != nil {
			return *condition
		}
	}
	return metav1.Condition{}
}

// Warning is Condition as something to poll: its message if it is True, and otherwise nothing.
func (c *Cluster) Warning(ctx context.Context, name, kind string) func() string {
	return func() string {
		if condition := c.Condition(ctx, name, kind); condition.Status == metav1.ConditionTrue {
			return condition.Message
		}
		return ""
	}
}

// known is a bit longer than the operator waits for all API servers to know of a new range.
const known = 1300 * time.Millisecond

// OfferRange creates a ServiceCIDR and waits until the operator looks after it, and the API server
// and the operator allocate from it. labels may be nil.
func (c *Cluster) OfferRange(ctx context.Context, name string, labels map[string]string, cidrs ...string) {
	GinkgoHelper()
	object := framework.NewServiceCIDR(name, cidrs...)
	object.Labels = labels
	suite.Must(c.Networking().ServiceCIDRs().Create(ctx, object, metav1.CreateOptions{}))
	c.WaitLookedAfter(ctx, name)
	time.Sleep(known)
	client := ClientAs(c.Access, "system:apiserver")
	for _, cidr := range cidrs {
		Eventually(allocates).WithArguments(ctx, client, cidr).Should(BeTrue(), "the API server does not know of %s", cidr)
	}
}

// WithdrawRanges removes ServiceCIDRs by force: the grace of a deletion is ten seconds.
func (c *Cluster) WithdrawRanges(ctx context.Context, names ...string) {
	GinkgoHelper()
	c.DeleteServiceCIDRs(ctx, names...)
	for _, name := range names {
		if c.ServiceCIDR(ctx, name) != nil {
			_, err := c.Networking().ServiceCIDRs().Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
		}
		Eventually(c.ServiceCIDR).WithArguments(ctx, name).Should(BeNil(), name)
	}
}

// allocates reports whether an API server allocates from a range, be its address free or not.
func allocates(ctx context.Context, client kubernetes.Interface, cidr string) bool {
	address := netip.MustParsePrefix(cidr).Masked().Addr().Next().Next().String()
	service := framework.NewService(Namespace, "range-probe", framework.WithClusterIPs(address))
	_, err := client.CoreV1().Services(Namespace).Create(ctx, service, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err == nil || strings.Contains(err.Error(), "already allocated")
}

// Uncounted are the ServiceCIDRs whose annotation does not count their IPAddresses yet.
func (c *Cluster) Uncounted(ctx context.Context) (names []string) {
	GinkgoHelper()
	addresses := c.IPAddresses(ctx)
	for _, o := range c.ServiceCIDRs(ctx) {
		var usage v1alpha1.ServiceCIDRUsage
		counted := json.Unmarshal([]byte(o.Annotations[UsageAnnotation]), &usage) == nil
		for _, r := range usage.Ranges {
			offered := suite.Must(allocator.ParseRange(r.CIDR))
			in := 0
			for _, ip := range addresses {
				if offered.Contains(netip.MustParseAddr(ip.Name)) {
					in++
				}
			}
			counted = counted && r.Static.Size-r.Static.Free+r.Dynamic.Size-r.Dynamic.Free == int64(in)
		}
		if !counted {
			names = append(names, o.Name)
		}
	}
	return names
}
