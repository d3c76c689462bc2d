package renumber_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

const bySecond = "--keep=service"

// selecting gives a Service a selector, without which no second Service can have its endpoints, and
// a pod that it selects.
func selecting(s *corev1.Service) {
	s.Spec.Selector = map[string]string{"app": s.Name}
	runPod(s.Namespace, s.Name, 1)
}

// runPod has a pod of both families be ready. Its name is the label by which Services select it, n
// the end of its addresses.
func runPod(namespace, name string, n int) {
	GinkgoHelper()
	_, err := c.Client().CoreV1().Nodes().Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, metav1.CreateOptions{})
	Expect(err).To(Or(Not(HaveOccurred()), Satisfy(apierrors.IsAlreadyExists)))
	pods, four := c.Client().CoreV1().Pods(namespace), fmt.Sprint("10.1.1.", n)
	pod := suite.Must(pods.Create(context.Background(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}, metav1.CreateOptions{}))
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: four, PodIPs: []corev1.PodIP{{IP: four}, {IP: fmt.Sprint("fd00:10:1::", n)}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	suite.Must(pods.UpdateStatus(context.Background(), pod, metav1.UpdateOptions{}))
}

// secondsIn are the second Services of a namespace, address -> Service.
func secondsIn(ctx context.Context, namespace string) map[string]corev1.Service {
	GinkgoHelper()
	all := suite.Must(c.Client().CoreV1().Services(namespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelPurpose + "=" + v1alpha1.PurposeSecond}))
	out := map[string]corev1.Service{}
	for _, s := range all.Items {
		out[s.Spec.ClusterIP] = s
	}
	return out
}

// expectHandedOver expects IPAddresses to name the Services that have their addresses, and nothing
// of the handovers to be left.
func expectHandedOver(ctx context.Context) {
	GinkgoHelper()
	expectNothingLeaked(ctx)
	records := suite.Must(c.Client().AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{}))
	bindings := suite.Must(c.Client().AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().List(ctx, metav1.ListOptions{}))
	for _, o := range records.Items {
		Expect(o.Name).NotTo(HavePrefix(v1alpha1.HandoverName))
	}
	for _, o := range bindings.Items {
		Expect(o.Name).NotTo(HavePrefix(v1alpha1.HandoverName))
	}
	copies := suite.Must(c.Client().DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelManagedBy + "=" + v1alpha1.ManagerRenumbering}))
	Expect(copies.Items).To(BeEmpty())
}

var _ = Describe("kubectl clusterip renumber --keep=service", func() {
	It("has second Services keep the old addresses of Services of all kinds, there and back", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		before := []*corev1.Service{}
		for n, s := range kinds(namespace) {
			runPod(namespace, s.Name, n+1)
			before = append(before, create(ctx, s))
		}
		offer(ctx)
		file, result := plan(ctx, namespace, bySecond, "--include-load-balancers")
		Expect(result.ExitCode).To(BeZero(), result.String())
		dry := suite.Exits(1, renumber(ctx, "run", "--from", file, "--dry-run"))
		Expect(dry.Stdout).To(MatchRegexp(`Service %s/dual-former-[0-9a-f]{10} would keep %s of %s/dual`, namespace, before[0].Spec.ClusterIP, namespace))
		Expect(secondsIn(ctx, namespace)).To(BeEmpty())
		Expect(suite.Exits(1, renumber(ctx, "run", "--from", file, "--wait=false")).Stdout).To(ContainSubstring("0 were left as they are"))
		expectHandedOver(ctx)
		status := suite.Exits(1, renumber(ctx, "status", "--from", file))
		Expect(status.Stdout).To(ContainSubstring(fmt.Sprintf("%d Moved", len(before))))
		kept := secondsIn(ctx, namespace)
		for _, was := range before {
			now := get(ctx, namespace, was.Name)
			Expect(comparable(now)).To(Equal(comparable(was)), "nothing but its addresses is different")
			for n, a := range was.Spec.ClusterIPs {
				Expect(inRange(now.Spec.ClusterIPs[n])).To(Equal("new"))
				second := kept[a]
				delete(kept, a)
				Expect(second.Name).To(HavePrefix(was.Name + "-former-"))
				Expect(second.OwnerReferences).To(ConsistOf(HaveField("UID", was.UID)))
				Expect(second.Spec.Type).To(Equal(corev1.ServiceTypeClusterIP))
				Expect(second.Spec.IPFamilies).To(Equal([]corev1.IPFamily{was.Spec.IPFamilies[n]}))
				Expect(second.Spec.Selector).To(Equal(was.Spec.Selector))
				Expect(second.Spec.SessionAffinity).To(Equal(was.Spec.SessionAffinity))
				Expect(second.Spec.InternalTrafficPolicy).To(Equal(was.Spec.InternalTrafficPolicy))
				Expect(second.Spec.TrafficDistribution).To(Equal(was.Spec.TrafficDistribution))
				Expect(second.Spec.PublishNotReadyAddresses).To(Equal(was.Spec.PublishNotReadyAddresses))
				for p, port := range was.Spec.Ports {
					port.NodePort = 0
					Expect(second.Spec.Ports[p]).To(Equal(port))
				}
			}
		}
		Expect(kept).To(BeEmpty())

		suite.Exits(1, renumber(ctx, "rollback", "--from", file, "--wait=false"))
		expectHandedOver(ctx)
		for a := range secondsIn(ctx, namespace) {
			Expect(inRange(a)).To(Equal("new"))
		}
		for _, was := range before {
			Expect(get(ctx, namespace, was.Name).Spec.ClusterIPs).To(Equal(was.Spec.ClusterIPs))
		}
		succeed(ctx, append([]string{"rollback", "--from", file}, quick...)...)
		Expect(secondsIn(ctx, namespace)).To(BeEmpty())
		expectWhole(ctx, "old", before)
		succeed(ctx, runOf(file)...)
		Expect(secondsIn(ctx, namespace)).To(BeEmpty())
		expectWhole(ctx, "new", before)
		expectHandedOver(ctx)
		succeed(ctx, "status", "--from", file)
	})

	AfterEach(forget)

	It("keeps the address from all other Services in the moment in which no IPAddress has it", func(ctx SpecContext) {
		was, file := one(ctx, selecting, bySecond)
		p := newProxy()
		tried := 0
		p.watch(func(_ int, r *http.Request) {
			if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/services") {
				return
			}
			a := was.Spec.ClusterIPs[tried]
			tried++
			_, err := c.Networking().IPAddresses().Get(ctx, a, metav1.GetOptions{})
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
			thief := framework.NewService(was.Namespace, "thief", framework.WithClusterIPs(a))
			_, err = c.Client().CoreV1().Services(was.Namespace).Create(ctx, thief, metav1.CreateOptions{})
			Expect(err).To(MatchError(ContainSubstring("hands the address over from one Service to another")))
		}, nil)
		code, printed := wait(ctx, p.start(ctx, "run", "--from", file, "--wait=false"))
		Expect(code).To(Equal(1), printed)
		Expect(tried).To(Equal(2), printed)
		Expect(secondsIn(ctx, was.Namespace)).To(HaveLen(2))
		succeed(ctx, runOf(file)...)
		expectWhole(ctx, "new", []*corev1.Service{was})
		expectHandedOver(ctx)
	})

	It("adopts and deletes no Service of a tenant, whatever that says of itself", Label("all"), func(ctx SpecContext) {
		was, file := handedOver(ctx)
		kept := secondsIn(ctx, was.Namespace)
		edited, deleted := kept[was.Spec.ClusterIPs[0]], kept[was.Spec.ClusterIPs[1]]
		edit(ctx, was.Namespace, edited.Name, `{"spec":{"type":"ExternalName","externalName":"theirs.example","clusterIP":null,"clusterIPs":null,"ipFamilies":null,"ipFamilyPolicy":null,"internalTrafficPolicy":null}}`)
		remove(ctx, was.Namespace, deleted.Name)
		// One of its own takes the name and the address, and says all that the second one said.
		claims := framework.NewService(was.Namespace, deleted.Name, framework.WithClusterIPs(deleted.Spec.ClusterIP))
		claims.Labels, claims.Annotations, claims.OwnerReferences = deleted.Labels, deleted.Annotations, deleted.OwnerReferences
		claims.Spec.IPFamilies = deleted.Spec.IPFamilies
		claims = create(ctx, claims)
		succeed(ctx, runOf(file)...)
		Expect(get(ctx, was.Namespace, edited.Name).Spec.Type).To(Equal(corev1.ServiceTypeExternalName))
		Expect(get(ctx, was.Namespace, deleted.Name).UID).To(Equal(claims.UID))
		// Nor does it go back to an address that such a Service has.
		back := suite.Exits(1, renumber(ctx, append([]string{"rollback", "--from", file}, quick...)...))
		Expect(back.Stdout).To(ContainSubstring("is taken by IPAddress of services " + was.Namespace + "/" + claims.Name))
		expectHandedOver(ctx)
	})

	It("leaves a Service whose second one's name another Service has, or that the API server refuses", Label("all"), func(ctx SpecContext) {
		was, file := handedOver(ctx)
		name := secondsIn(ctx, was.Namespace)[was.Spec.ClusterIPs[0]].Name
		succeed(ctx, append([]string{"rollback", "--from", file}, quick...)...)
		before := get(ctx, was.Namespace, was.Name)

		squatter := create(ctx, framework.NewService(was.Namespace, name))
		Expect(suite.Exits(1, renumber(ctx, runOf(file)...)).Stdout).To(ContainSubstring("Service %s/%s exists, and renumbering has not made it: rename or delete it", was.Namespace, name))
		Expect(get(ctx, was.Namespace, name)).To(Equal(squatter))
		Expect(get(ctx, was.Namespace, was.Name)).To(Equal(before))
		expectHandedOver(ctx)
		remove(ctx, was.Namespace, name)

		forbid(ctx, `object.metadata.name != "probe" && !object.metadata.name.contains("-former-")`)
		Expect(suite.Exits(1, renumber(ctx, runOf(file)...)).Stdout).To(ContainSubstring("no second Service could keep " + was.Spec.ClusterIPs[0]))
		Expect(get(ctx, was.Namespace, was.Name)).To(Equal(before))
		expectHandedOver(ctx)
	})

	It("leaves out Services without a selector", Label("all"), func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		create(ctx, framework.NewService(namespace, "bare"))
		offer(ctx)
		_, result := plan(ctx, namespace, bySecond)
		Expect(result.ExitCode).To(Equal(1), result.String())
		Expect(renumber(ctx, "plan", "-n", namespace, "--range=kubernetes", "--to=new", bySecond).Stdout).To(ContainSubstring("it has no selector, so that the endpoints of a second Service would not follow"))
	})

	It("is completed when it is killed at any write, on both ways", Label("all", "long"), func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		var before []*corev1.Service
		for i := range 3 {
			s := framework.NewService(namespace, fmt.Sprint("s", i), framework.PreferDualStack(), selecting)
			if i == 1 {
				s.Spec.Type = corev1.ServiceTypeNodePort
			}
			before = append(before, create(ctx, s))
		}
		offer(ctx)
		p := newProxy()
		file, _ := plan(ctx, namespace, bySecond)
		for _, way := range []struct{ verb, where string }{{"run", "new"}, {"rollback", "old"}} {
			args := append([]string{way.verb, "--from", file, "--workers=2"}, quick...)
			kills := 0
			// A run that is started again binds the policies of all handovers once more, six here. If all
			// died within these writes, none would get on.
			for killedAt(ctx, p, 1+kills%17, kills%2 == 0, args...) {
				kills++
				Expect(kills).To(BeNumerically("<", 150), "it does not get on")
			}
			GinkgoWriter.Println(way.verb, "was killed", kills, "times")
			expectWhole(ctx, way.where, before)
			Expect(secondsIn(ctx, namespace)).To(BeEmpty())
			expectHandedOver(ctx)
		}
	})

	It("goes back at any moment of the way there", Label("all", "long"), func(ctx SpecContext) {
		was, file := one(ctx, selecting, bySecond)
		p := newProxy()
		args := []string{"run", "--from", file, "--wait=false"}
		for n := 1; ; n += 3 {
			killed := killedOrKept(ctx, p, n, args...)
			succeed(ctx, append([]string{"rollback", "--from", file}, quick...)...)
			expectWhole(ctx, "old", []*corev1.Service{was})
			Expect(secondsIn(ctx, was.Namespace)).To(BeEmpty())
			expectHandedOver(ctx)
			if !killed {
				Expect(n).To(BeNumerically(">", 10))
				return
			}
		}
	})

	It("gives up what it keeps, all of it, at any moment after the Service has moved", Label("all", "long"), func(ctx SpecContext) {
		was, file := one(ctx, selecting, bySecond)
		p := newProxy()
		moved := 0
		for n, killed := 1, true; killed; n += 2 {
			killed = killedOrKept(ctx, p, n, "run", "--from", file, "--wait=false")
			now := get(ctx, was.Namespace, was.Name)
			if len(now.Spec.ClusterIPs) == 2 && inRange(now.Spec.ClusterIPs[0]) == "new" {
				succeed(ctx, "kept", "--delete", "--older-than=1ns")
				left := secondsIn(ctx, was.Namespace)
				for a := range left { // one whose IPAddress is on its way has a record: run the plan again
					suite.Must(c.Client().AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, handoverOf(a), metav1.GetOptions{}))
				}
				if len(left) == 0 {
					moved++
					Expect(get(ctx, was.Namespace, was.Name).ManagedFields).NotTo(ContainElement(HaveField("Manager", v1alpha1.ManagerRenumbering)))
					expectHandedOver(ctx)
				}
			}
			succeed(ctx, append([]string{"rollback", "--from", file}, quick...)...)
			expectWhole(ctx, "old", []*corev1.Service{was})
		}
		Expect(moved).To(BeNumerically(">", 3))
	})
})

// handoverOf is the name of the record of a handover.
func handoverOf(address string) string {
	return v1alpha1.HandoverName + "-" + strings.ReplaceAll(netip.MustParseAddr(address).StringExpanded(), ":", "-")
}

// forget waits until the API server has looked at its policies once more, and so follows none of a
// handover that has ended: for a second it may refuse an address that is free.
func forget(ctx SpecContext) { forbid(ctx, `object.metadata.name != "probe"`) }

// killedOrKept is killedAt for a command that keeps addresses at its end.
func killedOrKept(ctx context.Context, p *proxy, n int, args ...string) bool {
	GinkgoHelper()
	var plugin *framework.Plugin
	started := make(chan struct{})
	p.watch(func(m int, _ *http.Request) {
		if m >= n {
			<-started
			_ = plugin.Kill()
			if n%2 == 0 {
				panic(http.ErrAbortHandler)
			}
		}
	}, nil)
	plugin = p.start(ctx, args...)
	close(started)
	code, printed := wait(ctx, plugin)
	Expect(code).To(BeElementOf(1, -1), printed)
	return code == -1
}
