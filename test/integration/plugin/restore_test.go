package plugin_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// backup is a Service with its IPAddresses, as programs for back-ups keep them: with their managed
// fields, without what names the object, and made an hour ago.
type backup struct {
	service   *corev1.Service
	addresses []*networkingv1.IPAddress
}

func forget(o metav1.Object) {
	o.SetUID("")
	o.SetResourceVersion("")
	o.SetCreationTimestamp(metav1.Time{})
	for _, entry := range o.GetManagedFields() {
		entry.Time.Time = entry.Time.Add(-time.Hour)
	}
}

// Restores in every order that is known to happen. The plugin is asked in the middle of each, and
// finds nothing wrong after it.
var _ = Describe("A restore", Ordered, ContinueOnFailure, Label("soak"), func() {
	var r *cluster.Cluster

	BeforeAll(func(ctx SpecContext) {
		r = cluster.Start(ctx, cluster.Options{Options: framework.Options{ServiceClusterIPRange: "10.96.0.0/24,fd00:10:96::/120"}, Installed: true, Replicas: 1})
	})

	says := func(ctx context.Context, args ...string) string {
		GinkgoHelper()
		result := suite.Must(r.RunPlugin(ctx, framework.PluginOptions{Args: args}))
		return result.Stdout + result.Stderr
	}
	AfterEach(func(ctx SpecContext) {
		Eventually(says).WithArguments(ctx, "check").WithTimeout(90 * time.Second).Should(Equal("Nothing is wrong.\n"))
		r.ExpectConsistent(ctx)
		r.DeleteAllServices(ctx)
	})

	// save backs a Service up and deletes it.
	save := func(ctx context.Context, service *corev1.Service) (b backup) {
		GinkgoHelper()
		b.service = r.Create(ctx, service)
		for _, address := range b.service.Spec.ClusterIPs {
			Eventually(r.IPAddress).WithArguments(ctx, address).ShouldNot(BeNil())
			b.addresses = append(b.addresses, r.IPAddress(ctx, address))
		}
		r.DeleteServices(ctx, b.service)
		r.WaitFreed(ctx, b.service)
		forget(b.service)
		for _, copied := range b.addresses {
			forget(copied)
		}
		return b
	}
	// restoreAddresses creates IPAddresses and brings back by a patch who wrote them, as Velero does.
	restoreAddresses := func(ctx context.Context, b backup) {
		GinkgoHelper()
		for _, copied := range b.addresses {
			r.CreateIPAddress(ctx, copied.DeepCopy())
			patch := map[string]any{"metadata": map[string]any{"managedFields": copied.ManagedFields}}
			r.PatchIPAddress(ctx, copied.Name, string(suite.Must(json.Marshal(patch))))
		}
	}
	// has wants both families of a Service to be told of by its name and by their addresses.
	has := func(ctx context.Context, service *corev1.Service) {
		GinkgoHelper()
		name := service.Namespace + "/" + service.Name
		for _, address := range service.Spec.ClusterIPs {
			Eventually(r.Owner).WithArguments(ctx, address).Should(Equal(name))
			Expect(says(ctx, "why", "service/"+name)).To(ContainSubstring(address + " is the ClusterIP of Service " + name))
			Expect(says(ctx, "why", address)).To(ContainSubstring(address + " is the ClusterIP of Service " + name))
			Expect(says(ctx, "addresses", "-n", service.Namespace, "--parent="+service.Name)).To(ContainSubstring(address))
		}
	}
	dual := func(name string) *corev1.Service { return cluster.Dual(cluster.Namespace, name) }
	// soon restores a Service as soon as the API server takes it.
	soon := func(ctx context.Context, service *corev1.Service) {
		GinkgoHelper()
		Eventually(r.Try).WithArguments(ctx, service).WithTimeout(90 * time.Second).WithPolling(time.Second).Should(Not(BeNil()))
		has(ctx, service)
	}

	It("of Services before their IPAddresses, which are there then", func(ctx SpecContext) {
		b := save(ctx, dual("first"))
		r.Create(ctx, b.service)
		for _, copied := range b.addresses {
			_, err := r.Networking().IPAddresses().Create(ctx, copied.DeepCopy(), metav1.CreateOptions{})
			Expect(err).To(MatchError(ContainSubstring("already exists")))
		}
		has(ctx, b.service)
	})

	It("of IPAddresses before their Services, which wait for no minute", func(ctx SpecContext) {
		b := save(ctx, dual("last"))
		restoreAddresses(ctx, b)
		Eventually(r.Try).WithArguments(ctx, b.service).Should(Not(BeNil())) // not after the minute for one that is new
		has(ctx, b.service)
	})

	It("of IPAddresses whose Services do not come", func(ctx SpecContext) {
		b := save(ctx, dual("never"))
		restoreAddresses(ctx, b)
		for _, copied := range b.addresses {
			Eventually(says).WithArguments(ctx, "why", copied.Name).WithTimeout(90 * time.Second).Should(ContainSubstring(copied.Name + " is free"))
		}
		Expect(says(ctx, "why", "service/default/never")).To(ContainSubstring("There is no such Service."))
	})

	It("of Services without their addresses", func(ctx SpecContext) {
		b := save(ctx, dual("anew"))
		service := b.service.DeepCopy()
		service.Spec.ClusterIP, service.Spec.ClusterIPs = "", nil
		has(ctx, r.Create(ctx, service))
	})

	It("of a Service whose address another Service has got meanwhile", func(ctx SpecContext) {
		b := save(ctx, dual("late"))
		other := r.Create(ctx, cluster.Asking(cluster.Namespace, "other", b.service.Spec.ClusterIPs...))
		Expect(r.Try(ctx, b.service)).Error().To(MatchError(ContainSubstring("already allocated")))
		has(ctx, other)
		Expect(says(ctx, "why", "service/default/late")).To(ContainSubstring("There is no such Service."))
		r.DeleteServices(ctx, other)
		soon(ctx, b.service)
	})

	It("of Services before their range", func(ctx SpecContext) {
		r.OfferRange(ctx, "more", nil, "10.97.0.0/28", "fd00:10:97::/124")
		b := save(ctx, cluster.Asking(cluster.Namespace, "outside", "10.97.0.5", "fd00:10:97::5"))
		r.WithdrawRanges(ctx, "more")
		Eventually(func() error { _, err := r.Try(ctx, b.service); return err }).Should(MatchError(ContainSubstring("failed to allocate IP 10.97.0.5")))
		Expect(says(ctx, "why", "10.97.0.5")).To(cluster.ContainAll("10.97.0.5 is free", "no ServiceCIDR offers it"))
		Expect(says(ctx, "why", "range/more")).To(ContainSubstring(`ServiceCIDR "more": there is no such object`))
		r.OfferRange(ctx, "more", nil, "10.97.0.0/28", "fd00:10:97::/124")
		soon(ctx, b.service)
	})

	It("into another namespace, with IPAddresses that name the former", func(ctx SpecContext) {
		r.CreateNamespace(ctx, "moved", nil)
		b := save(ctx, dual("mapped"))
		restoreAddresses(ctx, b)
		service := b.service.DeepCopy()
		service.Namespace = "moved"
		soon(ctx, service)
		Expect(says(ctx, "addresses", "-n", "default", "--parent=mapped")).To(Equal("No resources found\n"))
	})

	It("of all Services of a namespace, deleted and applied anew", func(ctx SpecContext) {
		r.CreateNamespace(ctx, "again", nil)
		for _, name := range []string{"a", "b", "c"} {
			first := r.Create(ctx, cluster.Dual("again", name))
			r.DeleteServices(ctx, first)
			Expect(says(ctx, "why", "service/again/"+name)).To(ContainSubstring("There is no such Service. If it were created now:"))
			has(ctx, r.Create(ctx, cluster.Dual("again", name)))
		}
	})

	// rewind restores etcd as it was before do.
	rewind := func(ctx context.Context, do func()) {
		GinkgoHelper()
		saved := filepath.Join(GinkgoT().TempDir(), "saved")
		down := func(while func()) {
			Expect(r.API.Kill()).To(Succeed())
			Expect(r.Etcd.Stop()).To(Succeed())
			while()
			Expect(r.Etcd.Start(ctx)).To(Succeed())
			Expect(r.API.Start(ctx)).To(Succeed())
		}
		down(func() { Expect(r.Etcd.Save(saved)).To(Succeed()) })
		do()
		down(func() { Expect(r.Etcd.Restore(saved)).To(Succeed()) })
		Eventually(r.Operator.Running).Should(BeFalse(), "the storage has gone back in time")
		Expect(r.Operator.Start(ctx)).To(Succeed()) // as the kubelet does
	}

	It("of etcd, which brings a Service back and takes another one away", func(ctx SpecContext) {
		back := r.CreateSettledService(ctx, "back", framework.RequireDualStack())
		rewind(ctx, func() {
			r.DeleteServices(ctx, back)
			r.WaitFreed(ctx, back)
			r.CreateSettledService(ctx, "lost", framework.RequireDualStack())
		})
		has(ctx, back)
		Expect(says(ctx, "why", "service/default/lost")).To(ContainSubstring("There is no such Service. If it were created now:"))
	})

	It("of etcd, and of a Service that is younger", func(ctx SpecContext) {
		var b backup
		rewind(ctx, func() {
			b = save(ctx, dual("younger"))
			r.CreateSettledService(ctx, "noise", framework.RequireDualStack())
		})
		soon(ctx, b.service)
	})
})
