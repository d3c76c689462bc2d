package renumber_test

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// former are Services of both families with addresses of a range of their own, from and to which
// they can be moved; the plan moves them to new. The range ends with the spec.
func former(ctx context.Context) (before []*corev1.Service, file string) {
	GinkgoHelper()
	namespace := newNamespace(ctx)
	c.OfferRange(ctx, "former", nil, formerRanges...)
	DeferCleanup(func(ctx SpecContext) { c.WithdrawRanges(ctx, c.Remaining(ctx, "former", "again")...) })
	offer(ctx)
	before = []*corev1.Service{
		create(ctx, framework.NewService(namespace, "dual", framework.RequireDualStack(), framework.WithClusterIPs("10.202.0.5", "fd00:10:202::5"))),
		create(ctx, framework.NewService(namespace, "four", framework.WithClusterIPs("10.202.0.6"))),
		create(ctx, framework.NewService(namespace, "six", framework.WithClusterIPs("fd00:10:202::7"))),
	}
	file = filepath.Join(GinkgoT().TempDir(), "plan.yaml")
	include := "--include=" + namespace + "/dual," + namespace + "/four," + namespace + "/six"
	suite.Exits(0, renumber(ctx, "plan", "-n", namespace, "--range=former", "--to=new", "--keep=externalIPs", include, "-o", file))
	return before, file
}

var formerRanges = []string{"10.202.0.0/26", "fd00:10:202::/122"}

var _ = Describe("kubectl clusterip renumber, when a range has gone", func() {
	It("refuses the way back to it before the first write, and takes it when there is such a range again", func(ctx SpecContext) {
		before, file := former(ctx)
		suite.Exits(1, renumber(ctx, "run", "--from", file, "--wait=false"))
		c.DeleteServiceCIDRs(ctx, "former") // the kept addresses hold it
		c.Untouched(ctx, func() {
			refused(ctx, 2, "nothing was moved: Service "+before[0].Namespace+"/dual cannot have 10.202.0.5,fd00:10:202::5: ServiceCIDR former, which has 10.202.0.5, is being deleted",
				"rollback", "--from", file)
			refused(ctx, 2, "nothing was moved", "rollback", "--from", file, "--dry-run")
		})

		By("giving the addresses up, for which no range is needed")
		succeed(ctx, runOf(file)...)
		c.WithdrawRanges(ctx, c.Remaining(ctx, "former")...)
		c.Untouched(ctx, func() {
			refused(ctx, 2, "10.202.0.5 is in no ServiceCIDR any more", "rollback", "--from", file)
		})

		By("going back to a range of another name")
		c.OfferRange(ctx, "again", nil, formerRanges...)
		succeed(ctx, append([]string{"rollback", "--from", file}, quick...)...)
		for _, was := range before {
			Expect(get(ctx, was.Namespace, was.Name).Spec.ClusterIPs).To(Equal(was.Spec.ClusterIPs))
		}
		expectNothingLeaked(ctx)
	})

	It("finishes the Service that is between, and leaves the others as they are", Label("all"), func(ctx SpecContext) {
		before, file := former(ctx)
		code, printed := stopBetween(ctx, "dual", func() { c.WithdrawRanges(ctx, "new") }, append(runOf(file), "--workers=1")...)
		Expect(code).To(Equal(1), printed)
		Expect(printed).To(And(ContainSubstring("is in no ServiceCIDR any more"), ContainSubstring("the API server refused what it was to have")))
		for _, was := range before {
			Expect(get(ctx, was.Namespace, was.Name).Spec.ClusterIPs).To(Equal(was.Spec.ClusterIPs))
		}
		expectNothingLeaked(ctx)
		c.CreateServiceCIDR(ctx, "new", "10.200.0.0/22", "fd00:10:200::/118") // for the clean-up
	})
})
