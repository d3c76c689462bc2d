package bitmap_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

const (
	oneFamily   = "10.96.0.0/16"
	twoFamilies = "10.96.0.0/16,fd00:10:96::/112"
)

// A cluster on the bitmap gets the operator, lives, and is upgraded:
//
//  1. One family. The operator makes the default ServiceCIDR from its flag, and the IPAddresses.
//  2. A second family is added to the API server and to the operator.
//  3. A thousand Services of every kind; some go, some change type or families; IPAddresses vanish.
//  4. The API server becomes 1.37 while the manager is frozen. The new API server finds nothing to
//     repair: every IPAddress is the one that it would have written itself.
//  5. The manager wakes. It was told of another API than is served now, so it ends to be restarted.
//  6. Started again, it finds nothing to do either, and life goes on.
var _ = Describe("A cluster that allocates from the bitmap", Ordered, func() {
	var (
		c        *cluster.Cluster
		services []*corev1.Service

		addressesBefore  []networkingv1.IPAddress
		clusterIPsBefore map[string][]string
	)

	whole := func(ctx context.Context, within time.Duration) {
		GinkgoHelper()
		Eventually(c.Breaches).WithArguments(ctx).WithTimeout(within).WithPolling(200 * time.Millisecond).Should(BeEmpty())
	}
	clusterIPs := func(ctx context.Context) map[string][]string {
		GinkgoHelper()
		all := map[string][]string{}
		for _, s := range c.Services(ctx) {
			all[s.Namespace+"/"+s.Name] = s.Spec.ClusterIPs
		}
		return all
	}

	// hasty reports whether an event calls a Service newer than the upgrade unallocated. An API server
	// does so, and means nothing by it, when its watch of Services is ahead of that of IPAddresses.
	hasty := func(event eventsv1.Event) bool {
		_, wasThere := clusterIPsBefore[event.Regarding.Namespace+"/"+event.Regarding.Name]
		return !wasThere && event.Regarding.Kind == "Service" && strings.Contains(event.Note, "is not allocated; repairing") &&
			len(cluster.Events{event}.Ours()) == 0
	}

	// repairsSince are the new API server's and manager's events about repairs, in any namespace,
	// without those from before the upgrade.
	var eventsBefore cluster.Events
	repairsSince := func(ctx context.Context) cluster.Events {
		GinkgoHelper()
		return slices.DeleteFunc(c.Events(ctx), func(event eventsv1.Event) bool {
			return !slices.Contains(migrate.Repairs, event.Reason) || hasty(event) ||
				slices.ContainsFunc(eventsBefore, func(old eventsv1.Event) bool { return old.UID == event.UID })
		})
	}

	// configure tells the operator, at its next start, what the API server is given.
	var configuration string
	configure := func(ranges string) {
		GinkgoHelper()
		text := "apiVersion: config.clusterip-operator.io/v1alpha1\nkind: ManagerConfiguration\nserviceClusterIPRange: [" + strings.ReplaceAll(ranges, ",", ", ") + "]\n"
		Expect(os.WriteFile(configuration, []byte(text), 0o600)).To(Succeed())
	}

	BeforeAll(func(ctx SpecContext) {
		configuration = filepath.Join(GinkgoT().TempDir(), "config.yaml")
		configure(oneFamily)
		c = cluster.Start(ctx, cluster.Options{
			Options:      framework.Options{Version: framework.V132, ServiceClusterIPRange: oneFamily},
			OperatorArgs: []string{"--config=" + configuration},
		})
	})

	It("has its default ServiceCIDR from the operator", func(ctx SpecContext) {
		c.WaitLookedAfter(ctx, "kubernetes")
		Expect(c.ServiceCIDR(ctx, "kubernetes").Spec.CIDRs).To(Equal([]string{oneFamily}))
		services = c.CreateServices(ctx, 100, framework.Numbered(cluster.Namespace, "early"))
		whole(ctx, cluster.Timeout)
		Expect(c.IPAddresses(ctx)).To(HaveLen(1 + 100))
	})

	// Kubernetes 1.32 refuses a second range in an existing ServiceCIDR, so the operator replaces it.
	// It is killed between the two. The addresses do not wait, and existing ones stay as they are.
	It("gets a second family, although the manager is killed on the way", func(ctx SpecContext) {
		old := c.ServiceCIDR(ctx, "kubernetes").UID
		early := c.IPAddresses(ctx)
		Expect(c.Operator.Stop()).To(Succeed())
		Expect(c.Restart(ctx, framework.Options{Version: framework.V132, ServiceClusterIPRange: twoFamilies})).To(Succeed())
		configure(twoFamilies)
		Expect(c.Operator.Start(ctx)).To(Succeed())
		Eventually(func() bool {
			now := c.ServiceCIDR(ctx, "kubernetes")
			return now == nil || now.DeletionTimestamp != nil
		}).WithTimeout(cluster.Timeout).WithPolling(20 * time.Millisecond).Should(BeTrue())
		Expect(c.Operator.Kill()).To(Succeed())
		Expect(c.Operator.Start(ctx)).To(Succeed())

		dual := c.CreateService(ctx, "dual", framework.RequireDualStack())
		Expect(dual.Spec.ClusterIPs).To(HaveLen(2))
		whole(ctx, cluster.Timeout)
		Eventually(func() []string {
			if now := c.ServiceCIDR(ctx, "kubernetes"); now != nil && now.UID != old {
				return now.Spec.CIDRs
			}
			return nil
		}).WithTimeout(cluster.Timeout).Should(Equal([]string{"10.96.0.0/16", "fd00:10:96::/112"}))
		c.WaitLookedAfter(ctx, "kubernetes")
		for _, ip := range early {
			Expect(c.IPAddress(ctx, ip.Name).UID).To(Equal(ip.UID), ip.Name)
		}
	})

	It("has an IPAddress for each ClusterIP of a thousand Services", func(ctx SpecContext) {
		services = append(services, c.CreateServices(ctx, 900, func(i int) *corev1.Service {
			options := []framework.ServiceOption{}
			switch i % 9 {
			case 0:
				options = append(options, framework.Headless())
			case 1:
				options = append(options, framework.ExternalName("example.com"))
			case 2:
				options = append(options, framework.WithFamilies(corev1.IPv6Protocol))
			case 3:
				options = append(options, framework.WithType(corev1.ServiceTypeNodePort))
			case 4:
				options = append(options, framework.WithType(corev1.ServiceTypeLoadBalancer), framework.PreferDualStack())
			case 5:
				options = append(options, framework.WithFamilies(corev1.IPv6Protocol, corev1.IPv4Protocol), framework.RequireDualStack())
			case 6, 7:
				options = append(options, framework.RequireDualStack())
			}
			return framework.NewService(cluster.Namespace, fmt.Sprintf("web-%d", i), options...)
		})...)
		whole(ctx, time.Minute)
	})

	// services[100+i] was built by case i%9 above. An IPAddress that has lost its Service gets no
	// grace here: only the operator writes them.
	It("keeps them through deletions and changes", func(ctx SpecContext) {
		built := func(kind, n int) (some []*corev1.Service) {
			for i := 100 + kind; len(some) < n; i += 9 {
				some = append(some, services[i])
			}
			return some
		}
		c.DeleteServices(ctx, services[:50]...)
		c.DeleteServices(ctx, services[len(services)-90:]...)
		c.PatchServices(ctx, `{"spec":{"type":"ClusterIP","externalName":null}}`, built(1, 30)...)
		c.PatchServices(ctx, `{"spec":{"type":"ExternalName","externalName":"example.com","clusterIP":null,"clusterIPs":null}}`, built(8, 30)...)
		c.PatchServices(ctx, `{"spec":{"ipFamilyPolicy":"RequireDualStack"}}`, built(2, 30)...)
		c.PatchServices(ctx, `{"spec":{"ipFamilyPolicy":"SingleStack"}}`, built(6, 30)...)
		for _, s := range built(3, 20) {
			c.DeleteIPAddress(ctx, s.Spec.ClusterIP)
		}
		for i := range 10 { // each of these addresses goes from one Service to the next, faster than the operator looks
			before := c.HoldAddress(ctx, fmt.Sprintf("giver-%d", i), fmt.Sprintf("10.96.0.%d", 50+i))
			Eventually(c.Owner).WithArguments(ctx, before.Spec.ClusterIP).WithTimeout(cluster.Timeout).WithPolling(10 * time.Millisecond).ShouldNot(BeEmpty())
			c.DeleteServices(ctx, before)
			c.HoldAddress(ctx, fmt.Sprintf("taker-%d", i), before.Spec.ClusterIP)
		}
		whole(ctx, 30*time.Second)
		Expect(c.Events(ctx).Warnings()).To(BeEmpty(), "all of this is daily work")
	})

	It("tells that it is ready to be upgraded", func(ctx SpecContext) {
		Eventually(c.Condition).WithArguments(ctx, "kubernetes", cluster.Migrated).WithTimeout(cluster.Timeout).
			Should(And(HaveField("Status", metav1.ConditionTrue), HaveField("Reason", "ReadyToFlip")))
		Expect(c.Metric(ctx, "migration_addresses", "state", "missing")).To(BeZero())
		Expect(c.Metric(ctx, "migration_addresses", "state", "ready")).To(BeEquivalentTo(len(c.IPAddresses(ctx))))
	})

	It("needs no repair under Kubernetes 1.37", func(ctx SpecContext) {
		Eventually(func(g Gomega) { // the last labels are on their way
			for _, ip := range c.IPAddresses(ctx) {
				g.Expect(ip.Labels).To(HaveKey(cluster.BandLabel), ip.Name)
			}
		}).WithTimeout(cluster.Timeout).Should(Succeed())
		Expect(c.Operator.Pause()).To(Succeed()) // from now on no program writes IPAddresses
		Expect(c.Breaches(ctx)).To(BeEmpty())
		addressesBefore, clusterIPsBefore, eventsBefore = c.IPAddresses(ctx), clusterIPs(ctx), c.Events(ctx)
		Expect(len(addressesBefore)).To(BeNumerically(">", 900))

		Expect(c.API.Kill()).To(Succeed()) // it would wait for the answers of a client that is frozen
		Expect(c.Restart(ctx, framework.Options{
			Version: framework.V137, ServiceClusterIPRange: twoFamilies,
			Args: []string{"--runtime-config=networking.k8s.io/v1beta1=true"}, // what is easily forgotten
		})).To(Succeed())
		// The repair runs over everything when it starts, and over each object as its watch delivers it.
		Consistently(repairsSince).WithArguments(ctx).WithTimeout(15 * time.Second).WithPolling(time.Second).Should(BeEmpty())
		Expect(cmp.Diff(addressesBefore, c.IPAddresses(ctx), ignoreVersion)).To(BeEmpty(), "IPAddresses were written")
		Expect(clusterIPs(ctx)).To(Equal(clusterIPsBefore))
	})

	It("has the IPAddresses that Kubernetes 1.37 writes itself", func(ctx SpecContext) {
		fresh := c.CreateService(ctx, "fresh", framework.RequireDualStack())
		Expect(fresh.Spec.ClusterIPs).To(HaveLen(2))
		patterns := map[corev1.IPFamily]networkingv1.IPAddress{}
		for _, address := range fresh.Spec.ClusterIPs {
			ip := c.IPAddress(ctx, address)
			Expect(ip.ManagedFields).To(ConsistOf(HaveField("Manager", "kube-apiserver")))
			patterns[framework.FamilyOf(address)] = pattern(ip)
		}
		for _, ip := range addressesBefore {
			Expect(cmp.Diff(patterns[framework.FamilyOf(ip.Name)], pattern(&ip))).To(BeEmpty(), ip.Name)
		}
		Expect(c.Breaches(ctx)).To(BeEmpty(), "and each names its Service")
	})

	It("is left by a manager that was started for the API server before", func(ctx SpecContext) {
		Expect(c.Operator.Resume()).To(Succeed())
		Eventually(c.Operator.Done()).WithTimeout(90 * time.Second).Should(BeClosed())
		Expect(c.Operator.ExitCode()).To(Equal(1), "so that the kubelet starts it again")
		Expect(c.Operator.LogTail(1)).To(And(ContainSubstring("networking.k8s.io/v1beta1"), ContainSubstring("restarting")))
		Expect(repairsSince(ctx)).To(BeEmpty())
		Expect(c.Breaches(ctx)).To(BeEmpty())
	})

	It("goes on under Kubernetes 1.37 with a new manager", func(ctx SpecContext) {
		Expect(c.Operator.Start(ctx)).To(Succeed())
		c.WaitLookedAfter(ctx, "kubernetes")
		Eventually(c.Condition).WithArguments(ctx, "kubernetes", cluster.Migrated).WithTimeout(cluster.Timeout).Should(HaveField("Reason", "Flipped"))
		Expect(c.Metric(ctx, "migration_addresses")).To(Equal(cluster.NoSeries))
		Consistently(repairsSince).WithArguments(ctx).WithTimeout(10 * time.Second).WithPolling(time.Second).Should(BeEmpty())
		var still []networkingv1.IPAddress
		for _, ip := range addressesBefore {
			still = append(still, *c.IPAddress(ctx, ip.Name))
		}
		Expect(cmp.Diff(addressesBefore, still, ignoreVersion)).To(BeEmpty(), "IPAddresses were written")
		Expect(c.ServiceCIDR(ctx, "kubernetes").Spec.CIDRs).To(Equal([]string{"10.96.0.0/16", "fd00:10:96::/112"}))
		Expect(c.Condition(ctx, "kubernetes", cluster.DefaultRangeMismatch).Status).NotTo(Equal(metav1.ConditionTrue))
		now := clusterIPs(ctx)
		for name, before := range clusterIPsBefore {
			Expect(now).To(HaveKeyWithValue(name, before))
		}
		c.CreateServices(ctx, 20, framework.Numbered(cluster.Namespace, "late", framework.PreferDualStack()))
		c.DeleteServices(ctx, services[50:100]...)
		whole(ctx, cluster.Timeout)
		c.DeleteIPAddress(ctx, services[100+5].Spec.ClusterIP)
		whole(ctx, 10*time.Second)
	})
})

// pattern is an IPAddress without what differs from one to the next, and without our label.
func pattern(ip *networkingv1.IPAddress) networkingv1.IPAddress {
	ip = ip.DeepCopy()
	ip.Name, ip.UID, ip.ResourceVersion, ip.ManagedFields = "", "", "", nil
	ip.CreationTimestamp.Reset()
	delete(ip.Labels, cluster.BandLabel)
	ip.Spec.ParentRef.Namespace, ip.Spec.ParentRef.Name = "", ""
	return *ip
}

// ignoreVersion leaves out under which version of the API an object was read.
var ignoreVersion = cmpopts.IgnoreTypes(metav1.TypeMeta{})
