package renumber_test

import (
	"context"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// killedAt starts the command and kills it at its n-th write: before the API server sees that, or
// after, before the command knows. It reports whether there was an n-th write.
func killedAt(ctx context.Context, p *proxy, n int, before bool, args ...string) bool {
	GinkgoHelper()
	var plugin *framework.Plugin
	started := make(chan struct{})
	kill := func(m int) {
		if m < n {
			return
		}
		<-started
		_ = plugin.Kill()
		if before {
			panic(http.ErrAbortHandler)
		}
	}
	if before {
		p.watch(func(m int, _ *http.Request) { kill(m) }, nil)
	} else {
		p.watch(nil, kill)
	}
	plugin = p.start(ctx, args...)
	close(started)
	code, printed := wait(ctx, plugin)
	Expect(code).To(BeElementOf(0, -1), printed)
	return code == -1
}

// expectWhole expects Services to be as before but for their addresses, which are all old or all
// new, and no trace of a move.
func expectWhole(ctx context.Context, where string, before []*corev1.Service) {
	GinkgoHelper()
	for _, was := range before {
		now := get(ctx, was.Namespace, was.Name)
		Expect(comparable(now)).To(Equal(comparable(was)))
		Expect(now.ManagedFields).NotTo(ContainElement(HaveField("Manager", v1alpha1.ManagerRenumbering)))
		for _, a := range now.Spec.ClusterIPs {
			Expect(inRange(a)).To(Equal(where), "%s of %s", a, was.Name)
		}
	}
	expectNothingLeaked(ctx)
}

// expectNothingLeaked expects each address to be of one Service, and nothing to be kept.
func expectNothingLeaked(ctx context.Context) {
	GinkgoHelper()
	Expect(c.Breaches(ctx)).To(BeEmpty())
	for _, ip := range c.IPAddresses(ctx) {
		Expect(ip.Finalizers).To(BeEmpty(), ip.Name)
		Expect(ip.Labels).To(HaveKeyWithValue("ipaddress.kubernetes.io/managed-by", framework.ManagedByUpstream), ip.Name)
	}
}

// several are Services of both families, some with node ports.
func several(ctx context.Context, n int) (namespace string, all []*corev1.Service) {
	GinkgoHelper()
	namespace = newNamespace(ctx)
	for i := range n {
		s := framework.NewService(namespace, fmt.Sprint("s", i), framework.PreferDualStack())
		if i%2 == 1 {
			s.Spec.Type = corev1.ServiceTypeNodePort
		}
		all = append(all, create(ctx, s))
	}
	return namespace, all
}

var _ = Describe("kubectl clusterip renumber, killed", Label("all"), func() {
	const services = 6

	// Every other time the request that it dies of is one that the API server carries out.
	It("twenty times on its way, ends where it would have, and comes back so", Label("long"), func(ctx SpecContext) {
		namespace, before := several(ctx, services)
		offer(ctx)
		p := newProxy()
		file, _ := plan(ctx, namespace)
		journey := func(verb, where string, step int) {
			GinkgoHelper()
			args := append([]string{verb, "--from", file, "--workers=2"}, quick...)
			kills := 0
			for killedAt(ctx, p, step, kills%2 == 0, args...) {
				kills++
				Expect(kills).To(BeNumerically("<", 100), "it does not get on")
				for _, s := range before { // who is looked for is there, with its ports and its labels
					now := get(ctx, namespace, s.Name)
					Expect([]any{now.UID, len(now.Spec.Ports)}).To(Equal([]any{s.UID, 1}))
				}
			}
			GinkgoWriter.Println(verb, "was killed", kills, "times")
			if verb == "run" {
				Expect(kills).To(BeNumerically(">=", 20))
			}
			expectWhole(ctx, where, before)
		}
		journey("run", "new", 3)
		journey("rollback", "old", 7)
	})

	DescribeTable("is completed by running it again, and so is the way back", func(ctx SpecContext, moments int) {
		namespace, before := several(ctx, services)
		offer(ctx)
		p := newProxy()
		file, _ := plan(ctx, namespace)
		writes := 0
		for round := range moments + 1 {
			for _, way := range []struct{ verb, where string }{{"run", "new"}, {"rollback", "old"}} {
				args := append([]string{way.verb, "--from", file, "--workers=2"}, quick...)
				if round > 0 {
					at := 1 + (round-1)*(writes-1)/moments
					By(fmt.Sprintf("%s killed at write %d of %d", way.verb, at, writes))
					Expect(killedAt(ctx, p, at, round%2 == 0, args...)).To(BeTrue())
				}
				p.watch(nil, nil)
				code, printed := wait(ctx, p.start(ctx, args...))
				Expect(code).To(BeZero(), printed)
				expectWhole(ctx, way.where, before)
				if round == 0 {
					writes = p.writes
				}
			}
		}
	},
		Entry("at any of five moments", Label("long"), 5),
		Entry("at any of twenty moments", Label("soak"), 20),
	)
})
