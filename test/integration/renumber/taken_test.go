package renumber_test

import (
	"context"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// planned is where the first Service of a plan goes.
func planned(file string) []string {
	GinkgoHelper()
	text := suite.Must(os.ReadFile(file))
	var p struct {
		Services []struct{ New []string }
	}
	Expect(yaml.Unmarshal(text, &p)).To(Succeed())
	return p.Services[0].New
}

func runOf(file string) []string { return append([]string{"run", "--from", file}, quick...) }

// take gives addresses to another Service.
func take(ctx context.Context, namespace string, addresses ...string) {
	GinkgoHelper()
	s := framework.NewService(namespace, "thief", framework.WithClusterIPs(addresses...))
	if len(addresses) > 1 {
		framework.RequireDualStack()(s)
	}
	create(ctx, s)
}

var _ = Describe("kubectl clusterip renumber, when somebody has the new address", Label("all"), func() {
	It("leaves the Service where it is, if that was so before", func(ctx SpecContext) {
		was, file := one(ctx, nil)
		take(ctx, was.Namespace, planned(file)...)
		result := suite.Exits(1, renumber(ctx, runOf(file)...))
		Expect(result.Stderr + result.Stdout).To(And(ContainSubstring("web: "+planned(file)[0]+" is taken by IPAddress of services"), ContainSubstring("make a new plan")))
		Expect(get(ctx, was.Namespace, was.Name)).To(Equal(was))
		expectNothingLeaked(ctx)
	})

	DescribeTable("gives the Service its old addresses back, if it was taken between the two updates", func(ctx SpecContext, n int) {
		was, file := one(ctx, nil)
		code, printed := stopBetween(ctx, was.Name, func() { take(ctx, was.Namespace, planned(file)[n]) }, runOf(file)...)
		Expect(code).To(Equal(1), printed)
		Expect(printed).To(ContainSubstring("already allocated"))
		now := get(ctx, was.Namespace, was.Name)
		Expect(now.Spec.ClusterIPs).To(Equal(was.Spec.ClusterIPs))
		Expect(comparable(now)).To(Equal(comparable(was)))
		expectNothingLeaked(ctx)
	}, Entry("the first of them", 0), Entry("the second of them", 1))

	It("gives the Service what it can have, if the old ones cannot be had either", func(ctx SpecContext) {
		was, file := one(ctx, nil)
		code, printed := stopBetween(ctx, was.Name, func() {
			take(ctx, was.Namespace, planned(file)[1])
			steal(ctx, was.Namespace, was.Spec.ClusterIPs[0])
		}, runOf(file)...)
		Expect(code).To(Equal(1), printed)
		now := get(ctx, was.Namespace, was.Name)
		Expect(printed).To(ContainSubstring("it has " + now.Spec.ClusterIPs[0] + "," + now.Spec.ClusterIPs[1] + " now"))
		Expect(now.Spec.ClusterIPs[0]).To(Equal(planned(file)[0]), "the one that is free")
		Expect(now.Spec.ExternalIPs).To(BeEmpty(), "addresses of others")
		Expect(now.Annotations).To(BeEmpty())
		expectNothingLeaked(ctx)
	})

	It("gives the Service its new addresses, if it is the node port that somebody else has", func(ctx SpecContext) {
		was, file := one(ctx, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort })
		number := was.Spec.Ports[0].NodePort
		code, printed := stopBetween(ctx, was.Name, func() {
			s := framework.NewService(was.Namespace, "thief", framework.WithType(corev1.ServiceTypeNodePort))
			s.Spec.Ports[0].NodePort = number
			create(ctx, s)
		}, runOf(file)...)
		Expect(code).To(Equal(1), printed)
		Expect(printed).To(ContainSubstring("provided port is already allocated"))
		now := get(ctx, was.Namespace, was.Name)
		Expect(now.Spec.ClusterIPs).To(Equal(planned(file)))
		Expect(now.Spec.Ports[0].NodePort).NotTo(Or(BeZero(), Equal(number)))
		expectNothingLeaked(ctx)
	})

	// Only one family moves, but the Service has neither address for a moment. An API server that also
	// keeps the bitmap marks the address before it refuses it to the thief. Only `migrate run
	// --repair-bitmap` clears that bit: no Service has the address then, and the command says so.
	It("does not lose the address of the family that stays", func(ctx SpecContext) {
		was := create(ctx, framework.NewService(newNamespace(ctx), "web", framework.PreferDualStack()))
		offer(ctx)
		file, result := plan(ctx, was.Namespace, "--range=10.96.0.0/24")
		Expect(result.ExitCode).To(BeZero(), result.String())
		stays := was.Spec.ClusterIPs[1]
		Expect(planned(file)[1]).To(Equal(stays))
		code, printed := stopBetween(ctx, was.Name, func() {
			s := framework.NewService(was.Namespace, "thief", framework.WithClusterIPs(stays))
			_, err := c.Client().CoreV1().Services(was.Namespace).Create(ctx, s, metav1.CreateOptions{})
			Expect(err).To(MatchError(ContainSubstring("already allocated")))
		}, runOf(file)...)
		now := get(ctx, was.Namespace, was.Name).Spec.ClusterIPs
		if c.API.DualWrites() {
			Expect(code).To(Equal(1), printed)
			Expect(printed).To(ContainSubstring("it has " + strings.Join(now, ",") + " now"))
		} else {
			Expect(code).To(BeZero(), printed)
			Expect(now).To(Equal(planned(file)))
		}
		expectNothingLeaked(ctx)
	})
})

// steal takes an old address from a Service in between, by removing our finalizer, which keeps it.
func steal(ctx context.Context, namespace, address string) {
	GinkgoHelper()
	Expect(c.Labels(ctx, address)).NotTo(BeEmpty())
	c.PatchIPAddress(ctx, address, `{"metadata":{"finalizers":null}}`)
	Eventually(c.IPAddress).WithArguments(ctx, address).Should(BeNil())
	s := framework.NewService(namespace, "old-thief", framework.WithClusterIPs(address))
	create(ctx, s)
}
