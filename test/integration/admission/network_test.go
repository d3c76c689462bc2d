package admission_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/steering"
)

// overlaps are ranges that are somebody else's, each with what the message has to name.
var overlaps = map[string]struct{ cidrs, words []string }{
	"the pods of a node, IPv4":        {[]string{"10.150.1.0/25"}, []string{"10.150.1.0/25", "10.150.1.0/24", "machine"}},
	"the pods of a node, IPv6":        {[]string{"fd00:10:150:1::/112"}, []string{"fd00:10:150:1::/112", "fd00:10:150:1::/64", "machine"}},
	"a node, IPv4":                    {[]string{"10.151.0.0/28"}, []string{"10.151.0.0/28", "10.151.0.7", "machine"}},
	"a node, IPv6":                    {[]string{"fd00:10:151::/120"}, []string{"fd00:10:151::/120", "fd00:10:151::7", "machine"}},
	"a declared network around it":    {[]string{"10.152.3.0/24"}, []string{"10.152.3.0/24", "10.152.0.0/16", "corporate"}},
	"a declared network inside of it": {[]string{"fd00:10:152::/104"}, []string{"fd00:10:152::/104", "fd00:10:152::/112", "lab"}},
	"one with one of two CIDRs":       {[]string{"10.149.0.0/24", "fd00:10:152::/120"}, []string{"fd00:10:152::/120", "fd00:10:152::/112", "lab"}},
}

// A ServiceCIDR over the addresses of machines or pods takes them off the network as soon as Services get them.
var _ = Describe("A ServiceCIDR over a network that is in use", Label("all"), Ordered, ContinueOnFailure, func() {
	var (
		b        *steering.Bed
		bob      networkingv1client.NetworkingV1Interface
		warnings *steering.Warnings
	)

	BeforeAll(func(ctx SpecContext) {
		b = steering.Start(ctx, steering.Options{Replicas: -1})
		node := createNode(ctx, b, "machine", []string{"10.150.1.0/24", "fd00:10:150:1::/64"}, []string{"10.151.0.7", "fd00:10:151::7"})
		Expect(node.Name).To(Equal("machine"))
		config, heard := b.Admin(ctx, "bob")
		bob, warnings = networking(config), heard
	})

	// under runs do beside a replica with the given flags, and without one afterwards.
	under := func(ctx context.Context, do func(replica *framework.Manager), flags ...string) {
		GinkgoHelper()
		replica := b.AddReplicas(ctx, 1, append(flags, "--reserved-networks=corporate=10.152.0.0/16,lab=fd00:10:152::/112")...)[0]
		do(replica)
		b.Balancer.Remove(replica.WebhookAddress())
		Expect(replica.Stop()).To(Succeed())
		b.Balancer.Cut()
	}
	// try creates a ServiceCIDR, and returns the warnings and the error. It is gone afterwards.
	try := func(ctx context.Context, cidrs ...string) (warned string, err error) {
		GinkgoHelper()
		before := len(warnings.Texts())
		_, err = bob.ServiceCIDRs().Create(ctx, framework.NewServiceCIDR("tried", cidrs...), metav1.CreateOptions{})
		warned = strings.Join(warnings.Texts()[before:], "; ")
		if err == nil {
			b.WithdrawRanges(ctx, "tried")
		}
		return warned, err
	}
	each := func(do func(cidrs, words []string)) {
		GinkgoHelper()
		for _, what := range slices.Sorted(maps.Keys(overlaps)) {
			By(what)
			do(overlaps[what].cidrs, overlaps[what].words)
		}
	}
	containAll := func(text string, words []string) {
		GinkgoHelper()
		for _, word := range words {
			Expect(text).To(ContainSubstring(word))
		}
	}

	It("is taken with a warning", func(ctx SpecContext) {
		under(ctx, func(*framework.Manager) {
			each(func(cidrs, words []string) {
				warned, err := try(ctx, cidrs...)
				Expect(err).NotTo(HaveOccurred())
				containAll(warned, words)
			})
			warned, err := try(ctx, "10.153.0.0/24", "fd00:10:153::/120")
			Expect(err).NotTo(HaveOccurred())
			Expect(warned).To(BeEmpty(), "it is nobody's")

			By("and has the condition, too")
			b.CreateServiceCIDR(ctx, "kept", "10.152.7.0/24")
			Eventually(b.Warning(ctx, "kept", cluster.NetworkOverlap)).WithTimeout(cluster.Patience).Should(ContainSubstring("corporate"))
			b.WithdrawRanges(ctx, "kept")
		})
	})

	It("is refused if the admin says so", func(ctx SpecContext) {
		under(ctx, func(replica *framework.Manager) {
			each(func(cidrs, words []string) {
				_, err := try(ctx, cidrs...)
				Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
				containAll(err.Error(), words)
			})
			warned, err := try(ctx, "10.153.0.0/24", "fd00:10:153::/120")
			Expect(err).NotTo(HaveOccurred())
			Expect(warned).To(BeEmpty())

			By("but one that is there already can be changed, and go")
			Expect(replica.Stop()).To(Succeed())
			b.CreateServiceCIDR(ctx, "older", "10.152.8.0/24")
			Expect(replica.Start(ctx)).To(Succeed())
			b.WaitServing(ctx)
			_, err = bob.ServiceCIDRs().Patch(ctx, "older", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
			b.WaitLookedAfter(ctx, "older") // the operator's own writes
			b.WithdrawRanges(ctx, "older")
		}, "--webhook-network-overlap=Deny")
	})

	It("is nobody's business if the admin says so", func(ctx SpecContext) {
		under(ctx, func(*framework.Manager) {
			each(func(cidrs, _ []string) {
				warned, err := try(ctx, cidrs...)
				Expect(err).NotTo(HaveOccurred())
				Expect(warned).To(BeEmpty())
			})
		}, "--webhook-network-overlap=Ignore")
	})

	It("is taken in silence while nobody guards", func(ctx SpecContext) {
		Expect(b.Replicas()).To(BeEmpty())
		warned, err := try(ctx, overlaps["a node, IPv4"].cidrs...)
		Expect(err).NotTo(HaveOccurred())
		Expect(warned).To(BeEmpty())
	})
})

// createNode makes a machine with pod networks and addresses.
func createNode(ctx context.Context, b *steering.Bed, name string, podCIDRs, addresses []string) *corev1.Node {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: podCIDRs[0], PodCIDRs: podCIDRs}}
	node, err := b.Client().CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, address := range addresses {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	node, err = b.Client().CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred(), fmt.Sprintf("addresses %v", addresses))
	return node
}
