package dualstack_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

const (
	many  = 500
	one   = "10.96.0.0/16"
	other = "fd00:10:96::/112"
)

// plan is what matters here of a plan.
type plan struct {
	Services, LeftOut []struct{ Namespace, Name, UID, Gains, Reason string }
}

// named are the Services of a list, in their order, with the reason where there is one.
func named(list []struct{ Namespace, Name, UID, Gains, Reason string }) (names []string) {
	for _, s := range list {
		names = append(names, strings.TrimSuffix(s.Name+": "+s.Reason, ": "))
	}
	return names
}

// One cluster becomes dual-stack, and each spec goes on from the one before.
var _ = Describe("A cluster becomes dual-stack", Ordered, func() {
	var (
		c      *cluster.Cluster
		file   string
		before map[string]corev1.Service // as they were made
	)

	run := func(ctx context.Context, code int, args ...string) framework.PluginResult {
		GinkgoHelper()
		return suite.Exits(code, suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Race: true, Args: append([]string{"dual-stack"}, args...)})))
	}
	planned := func(ctx context.Context, code int, args ...string) (p plan) {
		GinkgoHelper()
		Expect(yaml.Unmarshal([]byte(run(ctx, code, append([]string{"plan", "-o", "yaml"}, args...)...).Stdout), &p)).To(Succeed())
		return p
	}
	services := func(ctx context.Context) map[string]corev1.Service {
		GinkgoHelper()
		all := map[string]corev1.Service{}
		for _, s := range c.Services(ctx) {
			all[s.Name] = s
		}
		return all
	}
	short := func(ctx context.Context) (names []string) {
		GinkgoHelper()
		for name, s := range services(ctx) {
			if name != "kubernetes" && len(s.Spec.IPFamilies) == 1 && *s.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyPreferDualStack {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	restart := func(ctx context.Context, ranges string) {
		GinkgoHelper()
		Expect(c.Restart(ctx, framework.Options{ServiceClusterIPRange: ranges})).To(Succeed())
	}
	create := func(ctx context.Context, name string, options ...framework.ServiceOption) {
		GinkgoHelper()
		c.CreateService(ctx, name, slices.Concat([]framework.ServiceOption{framework.PreferDualStack()}, options)...)
	}
	selecting := func(app string) framework.ServiceOption {
		return func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": app} }
	}

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{WithoutOperator: true, Options: framework.Options{ServiceClusterIPRange: one}})
		file = filepath.Join(GinkgoT().TempDir(), "plan.yaml")
		create(ctx, "template", framework.WithClusterIPs("10.96.0.10"))
		c.Stock(ctx, many, 0, one)
		c.CreateService(ctx, "single")
		create(ctx, "ports", framework.WithType(corev1.ServiceTypeLoadBalancer), framework.WithLabel("tier", "edge"))
		create(ctx, "headless", framework.Headless(), selecting("none"))
		create(ctx, "listed", framework.WithFamilies(corev1.IPv4Protocol))
		create(ctx, "pods", selecting("old"))
		create(ctx, "manual", func(s *corev1.Service) { s.Spec.Selector = nil })
		givePod(ctx, c, "old", "10.1.0.1")
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "manual", Labels: map[string]string{discoveryv1.LabelServiceName: "manual"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}},
		}
		suite.Must(c.Client().DiscoveryV1().EndpointSlices(cluster.Namespace).Create(ctx, slice, metav1.CreateOptions{}))
		before = services(ctx)
	})

	It("and until then there is nothing to plan", func(ctx SpecContext) {
		Expect(run(ctx, 2, "plan").Stderr).To(ContainSubstring("there is no ServiceCIDR of IPv6 that is Ready, only [10.96.0.0/16]: give nodes and pods addresses of IPv6, then restart every kube-apiserver"))
	})

	It("and a plan names who lacks a family, and who better goes on so", func(ctx SpecContext) {
		restart(ctx, one+","+other)
		Eventually(func() []string { return c.ServiceCIDR(ctx, "kubernetes").Spec.CIDRs }).Should(HaveLen(2))
		p := planned(ctx, 1)
		Expect(p.Services).To(HaveLen(many + 3))
		Expect(named(p.Services)).To(ContainElements("headless", "ports", "template", cluster.StockName(0)))
		Expect(named(p.LeftOut)).To(HaveExactElements(
			MatchRegexp(`^listed: \S+ has written spec\.ipFamilies`),
			HavePrefix("manual: it has no selector, and none of its EndpointSlices has addresses of IPv6"),
			HavePrefix("pods: none of its pods has an address of IPv6"),
		))
		Expect(named(planned(ctx, 1, "-l", "tier=edge").Services)).To(HaveExactElements("ports"))
		Expect(planned(ctx, 0, "-n", "kube-system").Services).To(BeEmpty())
		Expect(named(planned(ctx, 1, "-n", "kube-system", "-A").Services)).To(ContainElement("ports"))
		Expect(run(ctx, 1, "plan", "-l", "tier=edge").Stdout).To(MatchRegexp(`NAMESPACE +NAME +LACKS +LEFT BECAUSE\s+default +ports +IPv6`))

		givePod(ctx, c, "old", "10.1.0.2", "fd00:1::2")
		Expect(named(planned(ctx, 1).Services)).To(ContainElement("pods"))
		run(ctx, 1, "plan", "-l", "tier=edge", "-o", file)
		Expect(run(ctx, 0, "run", "--from", file, "--dry-run").Stdout).To(HavePrefix("1 Services would gain a family, 0 had it, 0 are left as they are, 0 were refused\n"))
		Expect(services(ctx)).To(Equal(before), "neither a plan nor a dry run has changed anything")
		run(ctx, 1, "plan", "-o", file)
	})

	It("and Services gain it while they are edited and the command is killed", func(ctx SpecContext) {
		c.Consult(ctx, "Validating", "refusing", cluster.StartWebhook(func(_ *http.Request, _ *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse) {
			response.Allowed, response.Result = false, &metav1.Status{Message: "for the sake of the test"}
		}), `rules: [{apiGroups: [""], apiVersions: ["*"], operations: [UPDATE], resources: [services]}], matchConditions: [
			{name: has, expression: "has(object.metadata.labels) && 'refuse' in object.metadata.labels"},
			{name: had, expression: "has(oldObject.metadata.labels) && 'refuse' in oldObject.metadata.labels"}]`)
		var names []string
		for i := range many - 4 {
			names = append(names, cluster.StockName(i))
		}
		editing := edit(ctx, c, 4, names)

		command := suite.Must(c.StartPlugin(ctx, framework.PluginOptions{Race: true, Args: []string{"dual-stack", "run", "--from", file, "--qps=20", "--workers=8"}})) // slow enough to be killed in the midst
		Eventually(short).WithArguments(ctx).Should(WithTransform(func(names []string) int { return len(names) }, BeNumerically("<", 400)))
		Expect(command.Running()).To(BeTrue())
		Expect(command.Kill()).To(Succeed())
		late := short(ctx)
		Expect(late).To(ContainElements(cluster.StockName(many-4), cluster.StockName(many-3), cluster.StockName(many-2), cluster.StockName(many-1)))

		gone, anew, wish, refused := cluster.StockName(many-4), cluster.StockName(many-3), cluster.StockName(many-2), cluster.StockName(many-1)
		c.DeleteServices(ctx, framework.NewService(cluster.Namespace, gone), framework.NewService(cluster.Namespace, anew))
		c.CreateServiceOnceFree(ctx, anew, framework.WithFamilies(corev1.IPv4Protocol))
		suite.Must(c.PatchService(ctx, wish, `{"spec":{"ipFamilyPolicy":"SingleStack"}}`))
		suite.Must(c.PatchService(ctx, refused, `{"metadata":{"labels":{"refuse":"me"}}}`))

		result := run(ctx, 1, "run", "--from", file)
		Expect(result.Stdout).To(MatchRegexp(`^\d+ Services gained a family, [1-9]\d* had it, 3 are left as they are, 1 were refused\n`))
		Expect(result.Stdout).To(cluster.ContainAll(
			"left: Service default/"+gone+": it is gone\n", "left: Service default/"+anew+": it was created anew\n", "left: Service default/"+wish+": its ipFamilyPolicy is not PreferDualStack\n",
			"refused: Service default/"+refused+": ", "for the sake of the test",
		))
		edits := editing.end()
		Expect(short(ctx)).To(HaveExactElements("listed", "manual", refused))
		suite.Must(c.PatchService(ctx, refused, `{"metadata":{"labels":{"refuse":null}}}`))
		Expect(run(ctx, 0, "run", "--from", file).Stdout).To(HavePrefix("1 Services gained a family, 500 had it, 3 are left as they are, 0 were refused\n"))

		after := services(ctx)
		for name, was := range before {
			is, there := after[name]
			if slices.Contains([]string{"kubernetes", "single", "listed", "manual", gone, anew, wish}, name) {
				continue
			}
			Expect(there).To(BeTrue(), name)
			Expect(is.Spec.IPFamilies).To(Equal([]corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}), name)
			if name != "headless" {
				Expect(is.Spec.ClusterIPs).To(HaveExactElements(was.Spec.ClusterIP, HavePrefix("fd00:10:96::")), name)
			}
			if number, edited := edits[name]; edited {
				Expect(is.Labels).To(HaveKeyWithValue("edit", fmt.Sprint(number)))
				Expect(is.Spec.Selector).To(HaveKeyWithValue("edit", fmt.Sprint(number)))
				is.Spec.Selector = was.Spec.Selector
			}
			is.Spec.IPFamilies, is.Spec.ClusterIPs = was.Spec.IPFamilies, was.Spec.ClusterIPs
			Expect(is.Spec).To(Equal(was.Spec), name)
		}
		Expect(edits).To(HaveLen(len(names)), "each of them was edited")
		// An edit between allocation and write leaves an IPAddress that the API server deletes in 5 s.
		Eventually(c.Breaches).WithArguments(ctx).Should(BeEmpty())
		Expect(planned(ctx, 0).Services).To(BeEmpty())
	})

	It("and an owner can go back without a conflict", func(ctx SpecContext) {
		for _, s := range []string{"ports", "template"} {
			manifest := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Service","metadata":{"name":%q},"spec":{"ipFamilyPolicy":"SingleStack","ipFamilies":["IPv4"]}}`, s)
			force := false // but for the policy, which the suite itself has written
			_, err := c.Client().CoreV1().Services(cluster.Namespace).Patch(ctx, s, types.ApplyPatchType, manifest, metav1.PatchOptions{FieldManager: "owner", Force: &force})
			Expect(err).To(MatchError(And(ContainSubstring(".spec.ipFamilyPolicy"), Not(ContainSubstring(".spec.ipFamilies")))))
		}
	})

	It("and an API server that was not restarted stops the run", func(ctx SpecContext) {
		restart(ctx, one)
		create(ctx, "late")
		run(ctx, 1, "plan", "-o", file)
		Expect(run(ctx, 2, "run", "--from", file).Stderr).To(ContainSubstring("nothing is known to be written: service default/late: the API server that answers knows one family"))
		Expect(os.WriteFile(file, []byte("kind: DualStackPlan\napiVersion: dualstack.clusterip-operator.io/v1alpha1\ncluster: another\n"), 0o600)).To(Succeed())
		Expect(run(ctx, 2, "run", "--from", file).Stderr).To(ContainSubstring("the plan is of cluster another, this is"))
	})
})

// givePod makes a pod that has addresses.
func givePod(ctx context.Context, c *cluster.Cluster, app string, addresses ...string) {
	GinkgoHelper()
	pods := c.Client().CoreV1().Pods(cluster.Namespace)
	token := false
	p := suite.Must(pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: app + "-", Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{AutomountServiceAccountToken: &token, Containers: []corev1.Container{{Name: "a", Image: "a"}}},
	}, metav1.CreateOptions{}))
	p.Status.Phase = corev1.PodRunning
	for _, a := range addresses {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a})
	}
	p.Status.PodIP = addresses[0]
	suite.Must(pods.UpdateStatus(ctx, p, metav1.UpdateOptions{}))
}
