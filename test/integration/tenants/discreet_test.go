package tenants_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/hostile"
)

// Promise 5. The API server says of an address that it is allocated already, and not by whom.
var _ = Describe("Discreet: a tenant does not learn of the Services of others", Ordered, ContinueOnFailure, func() {
	const secret = "merger-with-acme"
	var (
		mallory *hostile.Tenant
		p       place
	)
	BeforeAll(func(ctx SpecContext) {
		mallory = hostile.New(ctx, c, "mallory-discreet", nil)
		p = newPlace(ctx, "shared", 8)
		c.CreateNamespace(ctx, secret, nil)
		four, six := p.at(40)
		program(ctx, "shared", fmt.Sprintf(`{serviceCIDRs: [shared], coolDown: 1h, reservations: [
			{name: four, address: "%s", for: %s/reserved-room}, {name: six, address: "%s", for: %s/reserved-room}]}`, four, secret, six, secret))
	})

	// ask tries addresses in every way, and returns all that the tenant was told.
	ask := func(ctx context.Context, addresses ...string) (told []string) {
		GinkgoHelper()
		for i, a := range addresses {
			s := hostile.Choosing(fmt.Sprintf("asking-%d", i), a)
			alias := fmt.Sprintf("asking-alias-%d", i)
			mallory.Create(ctx, hostile.Alias(alias))
			for _, answer := range []hostile.Answer{
				mallory.DryRun(ctx, s), mallory.Create(ctx, s),
				mallory.Merge(ctx, alias, hostile.Fields{"spec": hostile.Fields{"type": "ClusterIP", "externalName": nil, "clusterIP": a, "clusterIPs": []string{a}}}),
			} {
				Expect(answer.Stored()).To(BeFalse(), "%s is taken", a)
				told = append(told, answer.Text())
			}
			mallory.Delete(ctx, alias)
		}
		return told
	}

	It("from addresses that they have", func(ctx SpecContext) {
		four, six := p.at(50)
		c.Create(ctx, cluster.Asking(secret, "dataroom", four, six))
		told := ask(ctx, four, six)
		Expect(told).NotTo(ContainElement(Or(ContainSubstring(secret), ContainSubstring("dataroom"))))
	})

	It("from addresses that they had", func(ctx SpecContext) {
		four, six := p.at(51)
		s := c.Create(ctx, cluster.Asking(secret, "dataroom-before", four, six))
		c.DeleteServices(ctx, s)
		for _, a := range s.Spec.ClusterIPs {
			Eventually(func() string {
				c.FreeLeaked(ctx)
				return c.Purpose(ctx, a)
			}).Should(Equal(cluster.Cooling))
		}
		told := ask(ctx, four, six)
		Expect(told).NotTo(ContainElement(Or(ContainSubstring(secret), ContainSubstring("dataroom"))))
	})

	It("from addresses that are reserved for them", func(ctx SpecContext) {
		four, six := p.at(40)
		for _, a := range []string{four, six} {
			Eventually(c.Purpose).WithArguments(ctx, a).Should(Equal(cluster.Reservation))
		}
		told := ask(ctx, four, six)
		Expect(told).NotTo(ContainElement(Or(ContainSubstring(secret), ContainSubstring("reserved-room"))))
	})

	// The admin of the cluster is told all of it.
	It("though an admin does", func(ctx SpecContext) {
		four, six := p.at(52)
		c.Create(ctx, cluster.Asking(secret, "dataroom-now", four, six))
		result, err := c.RunPlugin(ctx, framework.PluginOptions{Args: []string{"why", four}})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Stdout).To(ContainSubstring(secret+"/dataroom-now"), result.String())
	})
})
