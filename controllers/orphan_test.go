package controllers_test

import (
	"net/netip"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

var _ = Describe("IPAddresses that are there before their Service", func() {
	addresses := []string{"10.96.0.213", "fd00:10:96::d5"}
	leave := func(ctx SpecContext, as string) (uids []types.UID) {
		for _, address := range addresses {
			ip := upstream.NewIPAddress(netip.MustParseAddr(address), types.NamespacedName{Namespace: namespace, Name: "restored"})
			Expect(admin.Create(ctx, ip, client.FieldOwner(as))).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, ip))).To(Succeed()) })
			uids = append(uids, ip.UID)
		}
		return uids
	}
	// backdate brings back who had written an IPAddress a day ago, by a patch after its creation, as
	// Velero does.
	backdate := func(ctx SpecContext, address string) {
		ip := &networkingv1.IPAddress{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: address}, ip)).To(Succeed())
		before := ip.DeepCopy()
		ip.ManagedFields[0].Manager, ip.ManagedFields[0].Time = "kube-apiserver", new(metav1.NewTime(time.Now().Add(-24*time.Hour)))
		Expect(admin.Patch(ctx, ip, client.MergeFrom(before))).To(Succeed())
	}
	uidOf := func(ctx SpecContext, address string) types.UID {
		ip := &networkingv1.IPAddress{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: address}, ip)).To(Succeed())
		return ip.UID
	}

	It("give way to it if a backup brought them back, and to no other Service", func(ctx SpecContext) {
		before := leave(ctx, "velero-server")
		for _, address := range addresses {
			backdate(ctx, address)
		}
		another := dual("another", framework.WithClusterIPs(addresses...))
		Expect(admin.Create(ctx, another)).To(MatchError(ContainSubstring("already allocated")))
		service := dual("restored", framework.WithClusterIPs(addresses...))
		Eventually(func() error { return admin.Create(ctx, service.DeepCopy(), client.DryRunAll) }).Should(Succeed()) // ranges are ready a moment after the start
		for i, address := range addresses {
			Expect(uidOf(ctx, address)).To(Equal(before[i]), "a dry run frees nothing")
		}
		Eventually(func() error { return admin.Create(ctx, service) }).WithTimeout(10 * time.Second).Should(Succeed()) // repair would wait for a minute
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, service)).To(Succeed()) })
		Expect(service.Spec.ClusterIPs).To(Equal(addresses))
		for i, address := range addresses {
			Expect(uidOf(ctx, address)).NotTo(Equal(before[i]))
			Expect(owner(ctx, address)).To(Equal("default/restored"))
		}
	})

	It("stay if an API server may have written them: another creation of the Service may be going on", func(ctx SpecContext) {
		before := leave(ctx, "k3s") // an API server signs as its program is called
		Expect(admin.Create(ctx, dual("restored", framework.WithClusterIPs(addresses...)))).To(MatchError(ContainSubstring("already allocated")))
		for i, address := range addresses {
			Expect(uidOf(ctx, address)).To(Equal(before[i]))
		}
	})
})
