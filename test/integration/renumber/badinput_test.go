package renumber_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// refused runs the command and expects that it says why it does not do it.
func refused(ctx context.Context, code int, want string, args ...string) {
	GinkgoHelper()
	Expect(suite.Exits(code, renumber(ctx, args...)).Stderr).To(ContainSubstring(want))
}

var _ = Describe("kubectl clusterip renumber refuses", Label("all"), func() {
	It("ranges and flags that make no plan", func(ctx SpecContext) {
		namespace, _ := several(ctx, 3)
		offer(ctx)
		c.CreateServiceCIDR(ctx, "tiny", "10.201.0.0/30", "fd00:10:201::/126")
		DeferCleanup(func(ctx SpecContext) { c.WithdrawRanges(ctx, "tiny") })
		c.WaitLookedAfter(ctx, "tiny")
		file := filepath.Join(GinkgoT().TempDir(), "plan.yaml")
		for _, tc := range []struct {
			code       int
			want, args string
		}{
			{1, "has no address left for", "--range=kubernetes --to=tiny"},
			{1, "overlap: move to a range that has no address of the old one", "--range=kubernetes --to=kubernetes"},
			{1, "10.96.0.0/24 is IPv4, and none of the new ranges is", "--range=10.96.0.0/24 --to=fd00:10:200::/118"},
			{2, "no ServiceCIDR is called nowhere or has that range", "--range=kubernetes --to=nowhere"},
			{2, "no ServiceCIDR is called 10.250.0.0/24 or has that range", "--range=kubernetes --to=10.250.0.0/24"},
			{2, "there is no ServiceCIDR nowhere", "--range=nowhere --to=new"},
			{2, "say which range Services leave", "--to=new"},
			{2, "say where Services go", "--range=kubernetes"},
			{2, `--keep "tight" is none of agent, externalIPs, service, none`, "--range=kubernetes --to=new --keep=tight"},
			{2, `--include: "web" names no Service`, "--range=kubernetes --to=new --include=web"},
			{2, "--selector", "--range=kubernetes --to=new -l a=b=c"},
		} {
			By(tc.args)
			c.Untouched(ctx, func() {
				refused(ctx, tc.code, tc.want, append([]string{"plan", "-n", namespace, "--keep=externalIPs", "-o", file}, strings.Fields(tc.args)...)...)
				if tc.code == 1 {
					refused(ctx, 2, "the plan has a problem", "run", "--from", file)
				}
			})
		}
		of := []string{"plan", "--range=kubernetes", "--to=new", "--keep=externalIPs", "-o", "json", "-n", "kube-system"}
		Expect(renumber(ctx, of...).Stdout).NotTo(ContainSubstring(namespace))
		Expect(renumber(ctx, append(of, "-A")...).Stdout).To(ContainSubstring(namespace))
	})

	It("plans that somebody has changed, and those of another cluster", func(ctx SpecContext) {
		namespace, before := several(ctx, 2)
		offer(ctx)
		file, result := plan(ctx, namespace)
		Expect(result.ExitCode).To(BeZero(), result.String())
		text := suite.Must(os.ReadFile(file))
		ns := suite.Must(c.Client().CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{}))
		old := before[0].Spec.ClusterIPs[0]
		changed := func(what, by string) string {
			GinkgoHelper()
			next := strings.ReplaceAll(string(text), what, by)
			Expect(next).NotTo(Equal(string(text)), what)
			other := filepath.Join(GinkgoT().TempDir(), "changed.yaml")
			Expect(os.WriteFile(other, []byte(next), 0o600)).To(Succeed())
			return other
		}
		for _, tc := range []struct{ want, file string }{
			{"--from is empty", ""},
			{"no such file", "/nowhere/plan.yaml"},
			{"the plan is of cluster another", changed(string(ns.UID), "another")},
			{`unknown field "services[0].label"`, changed("- name: s0", "- label: s0")},
			{"is of kind Other, not RenumberingPlan", changed("kind: RenumberingPlan", "kind: Other")},
			{"that of the API servers, which has to be asked for by name", changed("- name: s0\n  namespace: "+namespace, "- name: kubernetes\n  namespace: default")},
			{"is listed twice, or another one gets its address", changed("name: s1", "name: s0")},
			{"what it leaves must lie in", changed("- "+old+"\n", "- 10.99.0.7\n")},
			{`keep "tight" is none of`, changed("keep: externalIPs", "keep: tight")},
			{"so that connections to them break", changed("keep: externalIPs", "keep: none")},
			{"nothing was moved: the plan has the agents serve old addresses", changed("keep: externalIPs", "keep: agent")},
		} {
			By(tc.want)
			c.Untouched(ctx, func() {
				for _, verb := range []string{"run", "rollback"} {
					refused(ctx, 2, tc.want, verb, "--from", tc.file)
				}
			})
		}
		By("a range that is gone")
		c.WithdrawRanges(ctx, "new")
		refused(ctx, 2, "the plan is out of date, and nothing was moved: Service "+namespace+"/s0 cannot have", "run", "--from", file)
		c.CreateServiceCIDR(ctx, "new", "10.200.0.0/22", "fd00:10:200::/118") // for the clean-up
	})

	It("an API server that allocates from the bitmap", Label("1.32"), func(ctx SpecContext) {
		old := cluster.Start(ctx, cluster.Options{Options: framework.Options{Version: framework.V132}, WithoutOperator: true})
		old.CreateServiceCIDR(ctx, "new", "10.200.0.0/22")
		result := suite.Exits(2, suite.Must(old.RunPlugin(ctx, framework.PluginOptions{Args: []string{"renumber", "plan", "--range=10.96.0.0/16", "--to=new", "--keep=none"}})))
		Expect(result.Stderr).To(ContainSubstring("the API server allocates from the bitmap in etcd"))
	})

	// If an ExternalName or an external IP is forbidden, the command makes no update at all.
	DescribeTable("to move where an admission policy forbids what it needs", func(ctx SpecContext, expression, want string) {
		was, file := one(ctx, nil)
		forbid(ctx, expression)
		result := suite.Exits(1, renumber(ctx, runOf(file)...))
		Expect(result.Stdout + result.Stderr).To(ContainSubstring(want))
		now := get(ctx, was.Namespace, was.Name)
		// Its resourceVersion is a later one: the proof in its status has come and gone.
		Expect(comparable(now)).To(Equal(comparable(was)))
		Expect(now.Spec).To(Equal(was.Spec))
		Expect(now.ManagedFields).NotTo(ContainElement(HaveField("Manager", v1alpha1.ManagerRenumbering)))
		expectNothingLeaked(ctx)
	},
		Entry("ExternalName", `object.spec.type != "ExternalName"`, "the API server refuses the first of the two updates"),
		Entry("external IPs", `!has(object.spec.externalIPs)`, "the old address cannot be kept as an external IP"),
	)

	It("nothing, and completes it, when the API server is killed in the middle", Label("long"), func(ctx SpecContext) {
		namespace, before := several(ctx, 6)
		offer(ctx)
		file, _ := plan(ctx, namespace)
		code, printed := stopBetween(ctx, before[2].Name, func() {
			Expect(c.API.Kill()).To(Succeed())
			cluster.StartAgain(ctx, c.API)
		}, append(runOf(file), "--workers=2")...)
		Expect(code).To(BeZero(), printed)
		expectWhole(ctx, "new", before)
	})

	It("to move the Service of a webhook that every change of a Service waits for, also by name", func(ctx SpecContext) {
		namespace, _ := several(ctx, 2)
		offer(ctx)
		await(ctx, namespace)
		for _, args := range [][]string{nil, {"--include=" + namespace + "/s0"}} {
			file, result := plan(ctx, namespace, args...)
			Expect(result.ExitCode).To(Equal(1), result.String())
			Expect(result.Stdout).To(ContainSubstring("1 Services would be moved, 1 are left out"))
			text := suite.Must(os.ReadFile(file))
			Expect(strings.Join(strings.Fields(string(text)), " ")).To(ContainSubstring("ValidatingWebhookConfiguration judge refuses changes of Services"))
		}
	})

	It("to take it back, where the webhook looked away while it was moved", func(ctx SpecContext) {
		namespace, _ := several(ctx, 1)
		offer(ctx)
		file, _ := plan(ctx, namespace)
		succeed(ctx, runOf(file)...)
		await(ctx, namespace)
		result := suite.Exits(1, renumber(ctx, "rollback", "--from", file))
		Expect(result.String()).To(ContainSubstring("judge refuses changes of Services"))
		Expect(get(ctx, namespace, "s0").Spec.Type).NotTo(Equal(corev1.ServiceTypeExternalName))
	})
})

// await has the API server ask Service s0, which never answers, about a namespace's Services.
func await(ctx context.Context, namespace string) {
	GinkgoHelper()
	service := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: "s0"}}
	c.Consult(ctx, "Validating", "judge", service, `namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: `+namespace+`}},
		rules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [services]}]`)
}

// forbid has the API server refuse Services for which a CEL expression is false.
func forbid(ctx context.Context, expression string) {
	GinkgoHelper()
	try := func(ctx context.Context) error {
		bad := framework.NewService("default", "probe", framework.ExternalName("example.com"))
		bad.Spec.ExternalIPs = []string{"192.0.2.1"}
		_, err := c.Client().CoreV1().Services("default").Create(ctx, bad, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	DeferCleanup(func(ctx SpecContext) { Eventually(try).WithContext(ctx).Should(Succeed()) }) // the API server forgets it later than it deletes it
	c.Forbid(ctx, "forbid", fmt.Sprintf(`{matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [services]}]},
		validations: [{expression: %q, message: forbidden here}]}`, expression))
	Eventually(try).WithContext(ctx).Should(MatchError(ContainSubstring("forbidden here")), fmt.Sprint("never refused: ", expression))
}
