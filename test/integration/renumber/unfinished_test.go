package renumber_test

import (
	"context"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// killedGiven kills `renumber run` when second Services have the addresses, by their IPAddresses
// too, and the first Service has them still. It returns the second ones, address -> Service.
func killedGiven(ctx context.Context, was *corev1.Service, file string) map[string]corev1.Service {
	GinkgoHelper()
	var plugin *framework.Plugin
	p, started := newProxy(), make(chan struct{})
	p.watch(func(int, *http.Request) {
		for _, a := range was.Spec.ClusterIPs {
			ip, err := c.Networking().IPAddresses().Get(ctx, a, metav1.GetOptions{})
			if err != nil || len(ip.Finalizers) == 0 || ip.Spec.ParentRef.Name == was.Name {
				return
			}
		}
		<-started
		_ = plugin.Kill()
		panic(http.ErrAbortHandler)
	}, nil)
	plugin = p.start(ctx, "run", "--from", file, "--wait=false")
	close(started)
	code, printed := wait(ctx, plugin)
	Expect(code).To(Equal(-1), printed)
	Expect(get(ctx, was.Namespace, was.Name).Spec.ClusterIPs).To(Equal(was.Spec.ClusterIPs))
	return secondsIn(ctx, was.Namespace)
}

var _ = Describe("kubectl clusterip renumber, killed when two Services have an address", Label("all"), func() {
	AfterEach(forget)

	DescribeTable("goes on, and back, though the owner deletes the second one", func(ctx SpecContext, verb, where string) {
		was, file := one(ctx, selecting, bySecond)
		for _, s := range killedGiven(ctx, was, file) {
			remove(ctx, was.Namespace, s.Name)
		}
		succeed(ctx, append([]string{verb, "--from", file}, quick...)...)
		expectWhole(ctx, where, []*corev1.Service{was})
		Expect(secondsIn(ctx, was.Namespace)).To(BeEmpty())
		expectHandedOver(ctx)
	}, Entry("run", "run", "new"), Entry("rollback", "rollback", "old"))

	It("lists it so, and deletes none of the two", func(ctx SpecContext) {
		was, file := one(ctx, selecting, bySecond)
		killedGiven(ctx, was, file)
		for _, a := range was.Spec.ClusterIPs {
			Expect(succeed(ctx, "kept")).To(MatchRegexp(`%s/web-former-[0-9a-f]{10}: the handover of %s from web is not finished: run the plan again`, was.Namespace, a))
		}
		for _, args := range [][]string{{"--dry-run"}, nil} {
			result := suite.Exits(1, renumber(ctx, append([]string{"kept", "--delete", "--older-than=1ms"}, args...)...))
			Expect(result.Stdout).To(And(ContainSubstring("the handover of "+was.Spec.ClusterIPs[1]+" from web is not finished: run the plan again"), Not(ContainSubstring("deleted"))))
		}
		Expect(secondsIn(ctx, was.Namespace)).To(HaveLen(2))
		succeed(ctx, runOf(file)...)
		expectWhole(ctx, "new", []*corev1.Service{was})
		expectHandedOver(ctx)
	})

	It("leaves nothing behind when the first Service is deleted, and the second one with it", func(ctx SpecContext) {
		was, file := one(ctx, selecting, bySecond)
		second := killedGiven(ctx, was, file)
		remove(ctx, was.Namespace, was.Name)
		for _, s := range second { // as the garbage collector does
			remove(ctx, was.Namespace, s.Name)
		}
		succeed(ctx, "kept", "--delete", "--older-than=1ms")
		expectNothingLeaked(ctx)
		for _, s := range second { // as well
			Expect(c.Client().DiscoveryV1().EndpointSlices(was.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{},
				metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + s.Name})).To(Succeed())
		}
		expectHandedOver(ctx)
	})
})

var _ = Describe("kubectl clusterip renumber, with second Services of another run", Label("all"), func() {
	AfterEach(forget)

	It("moves none of them", func(ctx SpecContext) {
		was, file := handedOver(ctx)
		result := renumber(ctx, "plan", "-n", was.Namespace, "--range=kubernetes", "--to=new", "--keep=none")
		for _, a := range was.Spec.ClusterIPs {
			Expect(result.Stdout).To(ContainSubstring("it keeps " + a + " of web: see `kubectl clusterip renumber kept`"))
		}
		Expect(result.Stdout).To(ContainSubstring("0 Services"))
		succeed(ctx, runOf(file)...)
		expectHandedOver(ctx)
	})

	It("brings them up to what the first Service is now", func(ctx SpecContext) {
		was, file := one(ctx, selecting, bySecond)
		runPod(was.Namespace, "green", 2)
		suite.Exits(1, renumber(ctx, "run", "--from", file, "--wait=false"))
		edit(ctx, was.Namespace, was.Name, `{"spec":{"selector":{"app":"green"},"sessionAffinity":"ClientIP","internalTrafficPolicy":"Local","ports":[{"name":"http","port":80,"targetPort":8080},{"name":"more","port":81}]}}`)
		Expect(suite.Exits(1, renumber(ctx, "run", "--from", file, "--wait=false")).Stdout).To(And(ContainSubstring("0 were left as they are"), ContainSubstring("2 addresses are still kept")))
		now := get(ctx, was.Namespace, was.Name)
		second := secondsIn(ctx, was.Namespace)
		Expect(second).To(HaveLen(2))
		for a, s := range second {
			Expect(was.Spec.ClusterIPs).To(ContainElement(a))
			Expect([]any{s.Spec.Selector, s.Spec.Ports, s.Spec.SessionAffinity, s.Spec.InternalTrafficPolicy}).
				To(Equal([]any{now.Spec.Selector, now.Spec.Ports, now.Spec.SessionAffinity, now.Spec.InternalTrafficPolicy}))
		}
		succeed(ctx, runOf(file)...)
		expectHandedOver(ctx)
	})

	It("believes no copies of endpoints that a run of long ago has left", func(ctx SpecContext) {
		was, file := one(ctx, selecting, bySecond)
		dead := killedGiven(ctx, was, file)
		for _, s := range dead {
			remove(ctx, was.Namespace, s.Name)
		}
		api := c.Client().DiscoveryV1().EndpointSlices(was.Namespace)
		copies := metav1.ListOptions{LabelSelector: discoveryv1.LabelManagedBy + "=" + v1alpha1.ManagerRenumbering}
		old := suite.Must(api.List(ctx, copies)).Items
		Expect(old).To(HaveLen(2))
		for _, slice := range old {
			slice.Endpoints[0].Addresses[0] += "9" // of no pod
			suite.Must(api.Update(ctx, &slice, metav1.UpdateOptions{}))
		}
		p, created := newProxy(), 0
		var served []string
		p.watch(func(_ int, r *http.Request) {
			defer GinkgoRecover()
			if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/services") {
				return
			}
			if created++; created == 2 { // from here on a second Service would have them, for each address
				for _, slice := range suite.Must(api.List(ctx, copies)).Items {
					served = append(served, slice.Endpoints[0].Addresses...)
				}
			}
		}, nil)
		code, printed := wait(ctx, p.start(ctx, runOf(file)...))
		Expect(code).To(BeZero(), printed)
		Expect(served).To(ConsistOf("10.1.1.1", "fd00:10:1::1"))
		expectHandedOver(ctx)
	})
})
