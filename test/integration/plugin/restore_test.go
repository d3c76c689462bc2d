package plugin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// Restores in every order that is known to happen. The plugin is asked after each step, and has to
// be right at once.
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
	const nothing = "Nothing is wrong.\n"
	sound := func(ctx context.Context) {
		GinkgoHelper()
		Expect(says(ctx, "check")).To(Equal(nothing))
	}
	AfterEach(func(ctx SpecContext) {
		sound(ctx)
		r.ExpectConsistent(ctx)
		r.DeleteAllServices(ctx)
	})

	// has wants both families of a Service to be told of by its name and by their addresses.
	has := func(ctx context.Context, service *corev1.Service) {
		GinkgoHelper()
		name := service.Namespace + "/" + service.Name
		Expect(service.Spec.ClusterIPs).To(HaveLen(2), name)
		for _, address := range service.Spec.ClusterIPs {
			Eventually(r.Owner).WithArguments(ctx, address).Should(Equal(name))
			Expect(says(ctx, "why", "service/"+name)).To(ContainSubstring(address + " is the ClusterIP of Service " + name))
			Expect(says(ctx, "why", address)).To(And(ContainSubstring(address+" is the ClusterIP of Service "+name), Not(ContainSubstring("problem"))))
			Expect(says(ctx, "addresses", "-n", service.Namespace, "--parent="+service.Name)).To(ContainSubstring(address))
		}
		sound(ctx)
	}
	const absent = "There is no such Service. If it were created now:"
	isFree := func(address string) OmegaMatcher { return HavePrefix(address + " is free\n") }
	// gone wants a Service not to be there, and its addresses to be free.
	gone := func(ctx context.Context, service *corev1.Service) {
		GinkgoHelper()
		Expect(says(ctx, "why", "service/"+service.Namespace+"/"+service.Name)).To(HavePrefix(absent))
		for _, address := range service.Spec.ClusterIPs {
			Expect(says(ctx, "why", address)).To(isFree(address))
		}
		sound(ctx)
	}
	// isHeld is what is told of an IPAddress that was there before the Service that it names.
	isHeld := func(address, name string) OmegaMatcher {
		return And(HavePrefix(address+" is allocated\n"), ContainSubstring("IPAddress of services "+name),
			ContainSubstring("no Service has it in its spec.clusterIPs: if that lasts for more than a minute the IPAddress is deleted"))
	}

	// save backs a Service up and deletes it.
	save := func(ctx context.Context, service *corev1.Service) (b backup) {
		GinkgoHelper()
		b.service = r.Create(ctx, service)
		has(ctx, b.service)
		for _, address := range b.service.Spec.ClusterIPs {
			b.addresses = append(b.addresses, r.IPAddress(ctx, address))
		}
		r.DeleteServices(ctx, b.service)
		r.WaitFreed(ctx, b.service)
		gone(ctx, b.service)
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
	// restored is restoreAddresses, and what is told in the minute after it.
	restored := func(ctx context.Context, b backup) {
		GinkgoHelper()
		restoreAddresses(ctx, b)
		name := b.service.Namespace + "/" + b.service.Name
		Expect(says(ctx, "why", "service/"+name)).To(HavePrefix(absent))
		for _, copied := range b.addresses {
			Expect(says(ctx, "why", copied.Name)).To(And(isHeld(copied.Name, name), Not(ContainSubstring("problem"))))
		}
		sound(ctx)
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
		has(ctx, b.service)
		for _, copied := range b.addresses {
			_, err := r.Networking().IPAddresses().Create(ctx, copied.DeepCopy(), metav1.CreateOptions{})
			Expect(err).To(MatchError(ContainSubstring("already exists")))
		}
		has(ctx, b.service)
	})

	It("of IPAddresses before their Services, which wait for no minute", func(ctx SpecContext) {
		b := save(ctx, dual("last"))
		restored(ctx, b)
		Eventually(r.Try).WithArguments(ctx, b.service).WithTimeout(20 * time.Second).Should(Not(BeNil())) // not after the minute for one that is new
		has(ctx, b.service)
	})

	It("of IPAddresses whose Services do not come", func(ctx SpecContext) {
		b := save(ctx, dual("never"))
		restored(ctx, b)
		for _, copied := range b.addresses {
			Eventually(func() string {
				answer := says(ctx, "why", copied.Name)
				Expect(answer).To(Or(isFree(copied.Name), isHeld(copied.Name, "default/never")))
				Expect(says(ctx, "check")).To(Or(Equal(nothing), ContainSubstring("IPAddressOrphan")))
				return answer
			}).WithTimeout(90 * time.Second).WithPolling(time.Second).Should(isFree(copied.Name))
		}
		gone(ctx, b.service)
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
		has(ctx, other)
		Expect(r.Try(ctx, b.service)).Error().To(MatchError(ContainSubstring("already allocated")))
		has(ctx, other)
		Expect(says(ctx, "why", "service/default/late")).To(HavePrefix(absent))
		r.DeleteServices(ctx, other)
		r.WaitFreed(ctx, other)
		gone(ctx, other)
		soon(ctx, b.service)
	})

	It("of Services before their range", func(ctx SpecContext) {
		r.OfferRange(ctx, "more", nil, "10.97.0.0/28", "fd00:10:97::/124")
		b := save(ctx, cluster.Asking(cluster.Namespace, "outside", "10.97.0.5", "fd00:10:97::5"))
		r.WithdrawRanges(ctx, "more")
		Eventually(func() error { _, err := r.Try(ctx, b.service); return err }).Should(MatchError(ContainSubstring("failed to allocate IP 10.97.0.5")))
		gone(ctx, b.service)
		for _, address := range b.service.Spec.ClusterIPs {
			Expect(says(ctx, "why", address)).To(ContainSubstring("no ServiceCIDR offers it"))
		}
		Expect(says(ctx, "why", "range/more")).To(ContainSubstring(`ServiceCIDR "more": there is no such object`))
		r.OfferRange(ctx, "more", nil, "10.97.0.0/28", "fd00:10:97::/124")
		for _, address := range b.service.Spec.ClusterIPs {
			Expect(says(ctx, "why", address)).To(And(isFree(address), ContainSubstring("band of ServiceCIDR more")))
		}
		Expect(says(ctx, "why", "range/more")).To(HaveSuffix("Nothing is wrong with it.\n"))
		soon(ctx, b.service)
	})

	It("into another namespace, with IPAddresses that name the former", func(ctx SpecContext) {
		r.CreateNamespace(ctx, "moved", nil)
		b := save(ctx, dual("mapped"))
		restored(ctx, b)
		service := b.service.DeepCopy()
		service.Namespace = "moved"
		Expect(says(ctx, "why", "service/moved/mapped")).To(HavePrefix(absent))
		soon(ctx, service)
		Expect(says(ctx, "why", "service/default/mapped")).To(HavePrefix(absent))
		Expect(says(ctx, "addresses", "-n", "default", "--parent=mapped")).To(Equal("No resources found\n"))
	})

	// kube-controller-manager deletes what is in a namespace, in its own order.
	It("of a whole namespace, deleted and applied anew", func(ctx SpecContext) {
		suite.ControllerManager(ctx, r.ControlPlane, "namespace-controller")
		objects := []string{"apiVersion: v1\nkind: Namespace\nmetadata: {name: again}\n"}
		for name, spec := range map[string]string{"a": "", "b": "", "fixed": "clusterIP: 10.96.0.9, clusterIPs: [10.96.0.9, 'fd00:10:96::9'], "} {
			objects = append(objects, fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: again}\nspec: {%sipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}\n", name, spec))
		}
		file := filepath.Join(GinkgoT().TempDir(), "again.yaml")
		Expect(os.WriteFile(file, []byte(strings.Join(objects, "---\n")), 0o600)).To(Succeed())
		apply := func() []corev1.Service {
			GinkgoHelper()
			r.Kubectl(ctx, "apply", "-f", file)
			applied := suite.Must(r.Client().CoreV1().Services("again").List(ctx, metav1.ListOptions{})).Items
			Expect(applied).To(HaveLen(3))
			for _, service := range applied {
				has(ctx, &service)
			}
			return applied
		}
		first := apply()
		r.Kubectl(ctx, "delete", "namespace", "again", "--timeout=60s")
		for _, service := range first {
			Expect(says(ctx, "why", "service/again/"+service.Name)).To(Equal(`error: namespace "again": there is no such namespace` + "\n"))
			r.WaitFreed(ctx, &service)
			for _, address := range service.Spec.ClusterIPs {
				Expect(says(ctx, "why", address)).To(isFree(address))
			}
		}
		sound(ctx)
		apply()
	})

	// rewind restores etcd as it was before do, and calls asks before the manager runs again and
	// after. While etcd is down the plugin has no answer, and says so.
	rewind := func(ctx context.Context, do, asks func()) {
		GinkgoHelper()
		saved := filepath.Join(GinkgoT().TempDir(), "saved")
		down := func(while func()) {
			Expect(r.API.Kill()).To(Succeed())
			Expect(r.Etcd.Stop()).To(Succeed())
			for _, args := range [][]string{{"check"}, {"why", "10.96.0.1"}, {"why", "fd00:10:96::1"}, {"why", "service/default/kubernetes"}} {
				result := suite.Must(r.RunPlugin(ctx, framework.PluginOptions{Args: args}))
				Expect(result).To(And(HaveField("ExitCode", 2), HaveField("Stdout", ""), HaveField("Stderr", MatchRegexp(`^error: .*connection refused\n$`))), "%v", args)
			}
			while()
			Expect(r.Etcd.Start(ctx)).To(Succeed())
			cluster.StartAgain(ctx, r.API)
		}
		down(func() { Expect(r.Etcd.Save(saved)).To(Succeed()) })
		do()
		down(func() { Expect(r.Etcd.Restore(saved)).To(Succeed()) })
		Eventually(r.Operator.Running).Should(BeFalse(), "the storage has gone back in time")
		asks()
		Expect(r.Operator.Start(ctx)).To(Succeed()) // as the kubelet does
		asks()
	}

	It("of etcd, which brings a Service back and takes another one away", func(ctx SpecContext) {
		back := r.CreateSettledService(ctx, "back", framework.RequireDualStack())
		var lost *corev1.Service
		rewind(ctx, func() {
			r.DeleteServices(ctx, back)
			r.WaitFreed(ctx, back)
			gone(ctx, back)
			lost = r.CreateSettledService(ctx, "lost", framework.RequireDualStack())
			has(ctx, lost)
		}, func() {
			has(ctx, back)
			gone(ctx, lost)
		})
	})

	It("of etcd, and of a Service that is younger", func(ctx SpecContext) {
		var b backup
		var noise *corev1.Service
		rewind(ctx, func() {
			b = save(ctx, dual("younger"))
			noise = r.CreateSettledService(ctx, "noise", framework.RequireDualStack())
			has(ctx, noise)
		}, func() {
			gone(ctx, b.service)
			gone(ctx, noise)
		})
		soon(ctx, b.service)
	})
})
