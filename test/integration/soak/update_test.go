package soak_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// preStop is how long a pod of config/manager goes on to answer when it is deleted.
const preStop = 5 * time.Second

// The order of docs/steering.md, "Updating": kubectl apply -k config/default, of which the Deployment then replaces one pod after the other,
// and enforcement when that is over. The replicas of the previous version are real: they are built from the history of this repository.
var _ = Describe("A rolling update from the version before, under load", Label("soak"), func() {
	It("lets nobody pass but whom the version before lets pass, and nobody at all once the API server enforces it", func(ctx SpecContext) {
		tree, err := framework.PreviousVersion(ctx)
		Expect(err).NotTo(HaveOccurred())
		program := build(tree)
		e := start(ctx, 1, tree)
		var old []*framework.Manager
		for range 2 {
			old = append(old, e.LaunchReplica(ctx, program, e.OperatorKubeconfig(e.Access)))
		}
		e.waitServing(ctx, old...)
		e.divide(ctx)
		c := &clients{apis: e.apis}
		stop := c.runAside(ctx)
		DeferCleanup(func() { stop() })

		// unanswered are the Services that went astray because no webhook answered. Some do, at two moments: an update of a Service passes between the apply, which
		// brings a webhook of updates, and the leader's answer, which enters its CA there; and a replica of the version before closes connections when it
		// stops, on one of which the API server may just be sending.
		unanswered := func() int {
			o := judge(e.events())
			return o.unsteered[isStranger] + o.unsteered[isOutside] - len(o.unexcused)
		}
		excused := 0
		during := func(do func()) {
			before := unanswered()
			do()
			time.Sleep(time.Second)
			excused += unanswered() - before
		}

		var passed int      // unsteered by replicas of the version before
		time.Sleep(preStop) // under load as before
		during(func() {
			e.Install(ctx, "")
			Eventually(e.Authorities).WithArguments(ctx).Should(HaveEach(Not(BeEmpty())), "replicas of the version before do not enter their CA")
		})
		for i, leaving := range old {
			time.Sleep(preStop)
			replacement := e.LaunchReplica(ctx, "", e.OperatorKubeconfig(e.Access))
			e.waitServing(ctx, append([]*framework.Manager{replacement}, old[i:]...)...)
			e.Balancer.Remove(leaving.WebhookAddress())
			time.Sleep(preStop)
			during(func() { e.RemoveReplica(leaving) })
			passed += unsteeredBy(leaving)
		}
		e.WaitServing(ctx)
		time.Sleep(preStop)

		o := judge(e.events())
		AddReportEntry("the update", fmt.Sprintf("%s\n%s\n%d passed unsteered by the version before, %d by nobody", c, o, passed, excused))
		Expect(o.creations).To(BeNumerically(">", 100), "there was hardly any load")
		Expect(e.Decisions(ctx, cluster.Failed)).To(BeZero(), "replicas of this version have let Services pass")
		Expect(len(o.unexcused)).To(BeNumerically("<=", passed), "%s", o)
		Expect(unanswered()).To(Equal(excused), "no webhook answered: %s", o)
		Expect(o.duplicates).To(BeEmpty(), "%s", o)

		e.enforce(ctx)
		before := judge(e.events())
		for _, replica := range e.Replicas() {
			Expect(replica.Kill()).To(Succeed())
		}
		time.Sleep(2 * preStop)
		after := judge(e.events())
		AddReportEntry("without replicas", after.String())
		Expect(after.creations).To(BeNumerically(">", before.creations), "there was no load")
		Expect(after.unsteered[isStranger]).To(Equal(before.unsteered[isStranger]), "%s", after)

		e.StartReplicas(ctx)
		stop()
		Eventually(e.unsettled).WithArguments(ctx).WithTimeout(settling).WithPolling(time.Second).Should(BeEmpty())
		e.ExpectNothingLeaked(ctx)
	})
})

// unsteeredBy is how many Services a replica of the version before has let pass because it could not steer them. It does so while it stops, when
// its metrics are not served any more, and logs each.
func unsteeredBy(replica *framework.Manager) int {
	GinkgoHelper()
	log, err := os.ReadFile(replica.LogFile())
	Expect(err).NotTo(HaveOccurred())
	return strings.Count(string(log), "A Service passes unsteered")
}

// waitServing waits until replicas of any version are ready, and the API server asks them.
func (e *environment) waitServing(ctx context.Context, replicas ...*framework.Manager) {
	GinkgoHelper()
	var addresses []string
	for _, replica := range replicas {
		Expect(replica.WaitReady(ctx)).To(Succeed())
		addresses = append(addresses, replica.WebhookAddress())
	}
	Eventually(e.Balancer.Ready).Should(ContainElements(addresses))
	Eventually(e.Authorities).WithArguments(ctx).Should(HaveEach(Not(BeEmpty())))
	e.Operator = replicas[0]
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

// build builds the manager of a checkout.
func build(tree string) (program string) {
	GinkgoHelper()
	program = filepath.Join(tree, "bin", "manager")
	out, err := exec.Command("go", "build", "-C", tree, "-o", program, "./cmd/manager").CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	return program
}
