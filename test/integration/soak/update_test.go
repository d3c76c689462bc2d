package soak_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// preStop is how long a pod of config/manager goes on to answer when it is deleted.
const preStop = 5 * time.Second

// The order of docs/versions.md: kubectl apply -k config/default, a Deployment that replaces pod by
// pod, then enforcement. The previous version is really built, from this repository's history.
var _ = Describe("A rolling update from the version before, under load", Label("soak"), func() {
	It("refuses nobody and lets nobody pass, and nobody without replicas either once the API server enforces it", func(ctx SpecContext) {
		e, previous := startPrevious(ctx)
		old := []*framework.Manager{e.launch(ctx, previous), e.launch(ctx, previous)}
		e.WaitServing(ctx)
		e.divide(ctx)
		c := &clients{apis: e.apis}
		stop := c.runAside(ctx)
		DeferCleanup(func() { stop() })

		time.Sleep(preStop) // under load as before
		e.Install(ctx, "")
		for _, leaving := range old {
			time.Sleep(preStop)
			e.launch(ctx, "")
			e.WaitServing(ctx)
			e.Balancer.Remove(leaving.WebhookAddress())
			time.Sleep(preStop)
			e.RemoveReplica(leaving)
		}
		e.WaitServing(ctx)
		time.Sleep(preStop)

		o := judge(e.requests())
		AddReportEntry("the update", ReportEntryVisibilityAlways, fmt.Sprintf("%s\n%s", c, o))
		Expect(o.creations).To(BeNumerically(">", 100), "there was hardly any load")
		Expect(c.drawn.Failures()).To(BeEmpty(), "%s", &c.drawn)
		Expect(o.unsteered).To(BeEmpty(), "%s", o)
		for _, replica := range append(old, e.Replicas()...) {
			Expect(unsteeredBy(replica)).To(BeZero(), replica.LogFile())
		}

		e.enforce(ctx)
		before := judge(e.requests())
		for _, replica := range e.Replicas() {
			Expect(replica.Kill()).To(Succeed())
		}
		time.Sleep(2 * preStop)
		after := judge(e.requests())
		AddReportEntry("without replicas", ReportEntryVisibilityAlways, after.String())
		Expect(after.creations).To(BeNumerically(">", before.creations), "there was no load")
		Expect(after.unsteered[isStranger]).To(Equal(before.unsteered[isStranger]), "%s", after)

		e.StartReplicas(ctx)
		stop()
		Eventually(e.unsettled).WithArguments(ctx).WithTimeout(settling).WithPolling(time.Second).Should(BeEmpty())
		Expect(e.history(ctx).Faults).To(BeEmpty())
		e.ExpectNothingLeaked(ctx)
	})
})

// startPrevious starts a cluster with the previous version's manifests and no replica yet, and
// returns that version's manager.
func startPrevious(ctx context.Context) (e *environment, manager string) {
	GinkgoHelper()
	tree := suite.Must(framework.PreviousVersion(ctx))
	manager = suite.Must(framework.PreviousProgram(ctx, "manager"))
	return start(ctx, 1, tree), manager
}

// launch starts a replica, of another version if a program is given, and does not wait for it.
func (e *environment) launch(ctx context.Context, program string) *framework.Manager {
	GinkgoHelper()
	return e.LaunchReplica(ctx, program, e.OperatorKubeconfig(e.Access))
}

// unsteeredBy is how many Services a replica let pass because it could not steer them. It logs
// each, also when it stops and serves no metrics any more.
func unsteeredBy(replica *framework.Manager) int {
	GinkgoHelper()
	log := suite.Must(os.ReadFile(replica.LogFile()))
	return strings.Count(string(log), "A Service passes unsteered")
}

// runAside lets clients go on until stop is called.
func (c *clients) runAside(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.run(ctx, 8)
	}()
	return func() {
		cancel()
		<-done
	}
}
