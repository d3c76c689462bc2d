package steering

import (
	"context"
	"net/netip"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// apiServer is a user whom no webhook of ours is asked about.
const apiServer = "system:apiserver"

// known is how long the operator waits with a range that is new, so that all API servers know of it, and a bit more.
const known = 1300 * time.Millisecond

// OfferRange creates a ServiceCIDR and waits until the operator looks after it, and both the API server and the operator allocate from it.
// labels may be nil.
func (b *Bed) OfferRange(ctx context.Context, name string, labels map[string]string, cidrs ...string) {
	GinkgoHelper()
	object := framework.NewServiceCIDR(name, cidrs...)
	object.Labels = labels
	_, err := b.Networking().ServiceCIDRs().Create(ctx, object, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	b.WaitLookedAfter(ctx, name)
	time.Sleep(known)
	unasked := b.unasked()
	for _, cidr := range cidrs {
		Eventually(func() bool { return knows(ctx, unasked, cidr) }).WithTimeout(cluster.Patience).
			Should(BeTrue(), "the API server does not know of %s", cidr)
	}
}

// WithdrawRanges removes ServiceCIDRs by force: the grace of a deletion is ten seconds.
func (b *Bed) WithdrawRanges(ctx context.Context, names ...string) {
	GinkgoHelper()
	b.DeleteServiceCIDRs(ctx, names...)
	for _, name := range names {
		if b.ServiceCIDR(ctx, name) != nil {
			b.DropFinalizers(ctx, name)
		}
		Eventually(func() any { return b.ServiceCIDR(ctx, name) }).WithTimeout(cluster.Patience).Should(BeNil(), name)
	}
}

// unasked returns a client of the user that no webhook of ours is asked about.
func (b *Bed) unasked() kubernetes.Interface {
	GinkgoHelper()
	config, err := b.ConfigForUser(apiServer, "system:masters")
	Expect(err).NotTo(HaveOccurred())
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return client
}

// knows reports whether the API server would allocate an address of a range. A dry run does not look whether it is free.
func knows(ctx context.Context, client kubernetes.Interface, cidr string) bool {
	GinkgoHelper()
	address := netip.MustParsePrefix(cidr).Masked().Addr().Next().Next().String()
	service := framework.NewService(cluster.Namespace, "range-probe", framework.WithClusterIPs(address))
	_, err := client.CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err == nil || strings.Contains(err.Error(), "already allocated")
}
