package plugin_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// What a restore does to Services (velero#1255): they are deleted, and created anew without their
// addresses, in any order, while users create others.
var _ = Describe("Services whose addresses are reserved", Ordered, func() {
	var r *cluster.Cluster

	BeforeAll(func(ctx SpecContext) {
		r = cluster.Start(ctx, cluster.Options{
			Options: framework.Options{ServiceClusterIPRange: "10.96.0.0/19,fd00:10:96::/115"}, Installed: true, Replicas: 2, Plain: true,
		})
		for _, namespace := range []string{"shop", "rented"} {
			r.CreateNamespace(ctx, namespace, nil)
		}
	})
	AfterEach(func(ctx SpecContext) { r.Clear(ctx) })

	reserve := func(ctx context.Context, args ...string) framework.PluginResult {
		GinkgoHelper()
		return suite.Exits(0, suite.Must(r.RunPlugin(ctx, framework.PluginOptions{Args: append([]string{"reserve", "--from-services"}, args...)})))
	}
	// one is a Service of both families, in either order, or of one.
	one := func(i int) *corev1.Service {
		v4, v6 := corev1.IPv4Protocol, corev1.IPv6Protocol
		name := fmt.Sprintf("s%d", i)
		switch i % 8 {
		case 0:
			return cluster.Single("shop", name, v4)
		case 1:
			return cluster.Single("shop", name, v6)
		case 2, 3:
			return cluster.Dual("shop", name, framework.WithFamilies(v6, v4))
		default:
			return cluster.Dual("shop", name)
		}
	}
	// comeBack deletes Services and creates them anew, in another order and beside others. Each is to
	// have the addresses that it had.
	comeBack := func(ctx context.Context, had []*corev1.Service, others int) {
		GinkgoHelper()
		By("deleting")
		r.DeleteServices(ctx, had...)
		order := rand.Perm(len(had))
		group, beside := errgroup.WithContext(ctx)
		group.Go(func() error {
			_, err := framework.CreateServices(beside, r.Client(), others, 4, func(i int) *corev1.Service { return cluster.Dual("rented", fmt.Sprintf("other%d", i)) })
			return err
		})
		By("creating anew")
		back := r.CreateServices(ctx, len(had), func(i int) *corev1.Service { return one(order[i]) })
		By("looking")
		Expect(group.Wait()).To(Succeed())
		for i, s := range back {
			Expect(s.Spec.ClusterIPs).To(Equal(had[order[i]].Spec.ClusterIPs), s.Name)
		}
		r.ExpectConsistent(ctx)
	}

	It("have them again: a thousand, twice", Label("long"), func(ctx SpecContext) {
		const n = 1000
		By("creating")
		had := r.CreateServices(ctx, n, one)
		By("reserving")
		first := reserve(ctx, "-n", "shop", "--apply")
		Expect(first.Stdout).To(Equal("servicecidrpolicy.clusterip-operator.io/services created\nservicecidrpolicy.clusterip-operator.io/services-2 created\n"))
		Expect(first.Stderr).To(ContainSubstring("1750 addresses of 1000 Services are reserved for them, in policies: 2"))
		By("waiting for the policies")
		r.WaitProgrammed(ctx, "services", "services-2")
		for range 2 {
			comeBack(ctx, had, n/4)
			again := reserve(ctx, "-n", "shop", "--apply")
			Expect(again.Stdout).To(Equal("servicecidrpolicy.clusterip-operator.io/services unchanged\nservicecidrpolicy.clusterip-operator.io/services-2 unchanged\n"))
			for _, s := range r.Services(ctx) {
				if s.Namespace == "rented" {
					r.DeleteServices(ctx, &s)
				}
			}
		}
	})

	It("are kept by what a repository has, and by no more than is asked for", func(ctx SpecContext) {
		had := r.CreateServices(ctx, 16, one)
		headless := r.Create(ctx, framework.NewService("shop", "headless", framework.Headless()))
		printed := reserve(ctx, "-A", "--range=kubernetes")
		Expect(printed.Stdout).To(cluster.ContainAll("---\napiVersion: clusterip-operator.io/v1alpha1\nkind: ServiceCIDRPolicy\n", "for: shop/s15"))
		Expect(printed.Stdout).NotTo(Or(ContainSubstring("headless"), ContainSubstring("default/kubernetes"), ContainSubstring("status")))
		Expect(r.AllPolicies(ctx)).To(BeEmpty(), "nothing is written without --apply")
		Expect(reserve(ctx, "--apply", "--dry-run").Stdout).To(Equal("servicecidrpolicy.clusterip-operator.io/services created (server dry run)\n"))
		Expect(r.AllPolicies(ctx)).To(BeEmpty(), "a dry run writes nothing")

		file := filepath.Join(GinkgoT().TempDir(), "reservations.yaml")
		Expect(os.WriteFile(file, []byte(printed.Stdout), 0o600)).To(Succeed())
		r.Kubectl(ctx, "apply", "--server-side", "-f", file)
		r.WaitProgrammed(ctx, "services")
		Expect(reserve(ctx).Stdout).To(Equal(printed.Stdout), "the same, now that it is applied")
		comeBack(ctx, had, 4)

		gone := had[2]
		r.DeleteServices(ctx, gone, headless)
		stays := reserve(ctx, "-n", "shop")
		Expect(stays.Stdout).To(Equal(printed.Stdout))
		Expect(stays.Stderr).To(ContainSubstring("1 Services are gone, and their reservations stay until --prune takes them out: shop/s2\n"))
		Expect(reserve(ctx, "-n", "default", "--prune").Stdout).To(Equal(printed.Stdout), "it is not gone from this namespace")
		pruned := reserve(ctx, "-n", "shop", "--prune", "--apply")
		Expect(pruned.Stdout).To(Equal("servicecidrpolicy.clusterip-operator.io/services configured\n"))
		Expect(pruned.Stderr).To(ContainSubstring("their reservations are taken out: shop/s2\n"))
		for _, address := range gone.Spec.ClusterIPs {
			Eventually(r.Purpose).WithArguments(ctx, address).Should(BeEmpty())
		}
		none := reserve(ctx, "-l", "app=none", "--name=none")
		Expect(none.Stdout).To(BeEmpty())
		Expect(none.Stderr).To(Equal("No resources found\n"))
	})
})
