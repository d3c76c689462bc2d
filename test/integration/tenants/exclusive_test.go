package tenants_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/hostile"
)

// closed offers ranges closed by the default enforcement to all but the namespace of their name.
func closed(ctx context.Context, name string) place {
	GinkgoHelper()
	p := newPlace(ctx, name, 8)
	c.CreateNamespace(ctx, name, map[string]string{"team": name})
	program(ctx, name, fmt.Sprintf("{serviceCIDRs: [%s], namespaceSelector: {matchLabels: {team: %s}}, exclusive: true, onFull: Fail}", name, name))
	c.WaitCondition(ctx, name, cluster.Enforced, metav1.ConditionTrue)
	four, six := p.at(2)
	for _, address := range []string{four, six} {
		Eventually(refusedByAPIServer).WithArguments(ctx, address).Should(BeTrue(), address)
	}
	return p
}

// refusedByAPIServer reports whether the API server itself keeps a stranger from an address: it
// asks no webhook about Services that it creates.
func refusedByAPIServer(ctx context.Context, address string) bool {
	GinkgoHelper()
	services := cluster.ClientAs(c.Access, "system:apiserver").CoreV1().Services("default")
	_, err := services.Create(ctx, framework.NewService("default", "stranger", framework.WithFamilies(framework.FamilyOf(address)), framework.WithClusterIPs(address)), metav1.CreateOptions{})
	if err == nil {
		Expect(services.Delete(ctx, "stranger", metav1.DeleteOptions{})).To(Succeed())
	}
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}

// strangers are the addresses of a place that nodes serve for Services of another namespace.
func strangers(ctx context.Context, p place) (found []string) {
	GinkgoHelper()
	for _, s := range c.Services(ctx) {
		if s.Namespace != p.name {
			found = append(found, hostile.Within(&s, p.four, p.six)...)
		}
	}
	return found
}

// Promise 1. The webhook may not get to see a request, so the promise rests on the API server.
var _ = Describe("Exclusive: a tenant gets no address of a range that is closed to it", Ordered, ContinueOnFailure, func() {
	var (
		mallory *hostile.Tenant
		finance place
	)
	BeforeAll(func(ctx SpecContext) {
		finance = closed(ctx, "finance")
		mallory = hostile.New(ctx, c, "mallory-exclusive", nil)
	})

	DescribeTable("by a Service that is too large for a webhook", func(ctx SpecContext, how string) {
		numbers++
		four, six := finance.at(20 + numbers)
		name := "large-" + how
		answers := map[string]func() []hostile.Answer{
			"json": func() []hostile.Answer { return mallory.Intrude(ctx, name, hostile.JSON, hostile.ManyPorts, four, six) },
			"protobuf": func() []hostile.Answer {
				return mallory.Intrude(ctx, name, hostile.Protobuf, hostile.ManyPorts, six, four)
			},
			"update": func() []hostile.Answer { return mallory.IntrudeLater(ctx, name, hostile.ManyPorts, four, six) },
		}[how]()
		Expect(strangers(ctx, finance)).To(BeEmpty(), "%v", codes(answers))
	},
		Entry("as JSON", "json"),
		Entry("as protobuf", "protobuf"),
		Entry("that gets its addresses later", "update"),
	)

	ask := func(ctx context.Context, name string) []hostile.Answer {
		numbers++
		four, six := finance.at(20 + numbers)
		return mallory.AskEveryWay(ctx, name, four, six)
	}

	It("in any way in which a Service comes to an address", func(ctx SpecContext) {
		answers := ask(ctx, "ways")
		Expect(strangers(ctx, finance)).To(BeEmpty(), "%v", codes(answers))
		Expect(codes(answers)[http.StatusForbidden]+codes(answers)[http.StatusUnprocessableEntity]).To(BeNumerically(">", 30), "%v", codes(answers))
	})

	It("in any way while no replica answers", func(ctx SpecContext) {
		c.StopReplicas()
		defer c.StartReplicas(ctx)
		answers := ask(ctx, "away")
		Expect(strangers(ctx, finance)).To(BeEmpty(), "%v", codes(answers))
	})

	It("and the namespace that it is for gets them", func(ctx SpecContext) {
		s := c.Create(ctx, cluster.Dual(finance.name, "owner"))
		for _, prefix := range []string{finance.four.String(), finance.six.String()} {
			Expect(cluster.In(prefix, s)).To(HaveLen(1))
		}
	})
})
