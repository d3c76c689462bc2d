package soak_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/history"
)

// settling is how long the operator may take: it gives an IPAddress without a Service a minute.
const settling = 3 * time.Minute

// Two API servers on one etcd, kube-controller-manager, a replica at each API server, eight
// clients; replicas are killed, API servers restarted, IPAddresses of live Services deleted. In the
// end all is in order, and by the logs no Service got a forbidden address while a webhook answered,
// nor one that another Service had, and none was refused without a reason.
var _ = Describe("Random clients", Label("soak"), func() {
	DescribeTable("leave a cluster in order, whatever goes wrong", func(ctx SpecContext, enforced bool) {
		e := start(ctx, 2, "")
		suite.ControllerManager(ctx, e.ControlPlane, framework.ServiceCIDRController)
		for _, api := range e.apis {
			e.LaunchReplica(ctx, "", e.OperatorKubeconfig(api.Access))
		}
		e.WaitServing(ctx)
		e.divide(ctx)
		if enforced {
			e.enforce(ctx)
		}

		f, c := &faults{environment: e, outages: enforced}, &clients{apis: e.apis}
		f.runBeside(ctx, c)
		e.WaitServing(ctx)
		failedOpen := f.failedOpenInAll(ctx)
		Eventually(e.unsettled).WithArguments(ctx).WithTimeout(settling).WithPolling(time.Second).Should(BeEmpty())
		e.ExpectNothingLeaked(ctx)

		o, v := judge(e.requests()), e.history(ctx, f.away...)
		AddReportEntry("chaos", ReportEntryVisibilityAlways, c.String()+"\n"+f.String()+fmt.Sprintf("\n%.0f calls failed open", failedOpen)+"\n"+o.String()+"\n"+v.String())
		Expect(o.creations).To(BeNumerically(">", duration.Seconds()), "there was hardly any traffic")
		Expect(f.kills.Load()*f.restarts.Load()*f.deleted.Load()).NotTo(BeZero(), "%s", f)
		e.expectKept(ctx, o, v, failedOpen, len(f.away))
		if enforced {
			Expect(o.unsteered[isStranger]).To(BeZero(), "the API server has let them in")
		} else {
			Expect(o.share()).To(BeNumerically("<", 0.01), "%s", o)
		}
	},
		Entry("with policies that the webhook keeps", false),
		Entry("with policies that the API server enforces, and outages of all replicas", true),
	)
})

// runBeside lets clients and faults go on for as long as the flag says.
func (f *faults) runBeside(ctx context.Context, c *clients) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, *duration)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() { f.run(ctx) })
	both.Go(func() { c.run(ctx, 8) })
	both.Wait()
}

// outcome is what the logs of API servers say about a time of chaos.
type outcome struct {
	creations  int            // of Services with addresses
	unsteered  map[string]int // requests, by the reason
	unexcused  []string       // those that the webhook was asked about
	failedOpen map[string]int // requests without an answer of the webhook, by the time, to ten seconds
}

// judge reads the logs. An address that only an outage of the webhook explains is no fault of ours.
func judge(requests []history.Request) outcome {
	o := outcome{
		unsteered:  map[string]int{},
		failedOpen: map[string]int{},
	}
	for _, r := range requests {
		if r.Resource == "services" && r.Verb == "create" && len(r.Addresses()) > 0 {
			o.creations++
		}
		if r.Chosen == history.FailedOpen {
			o.failedOpen[r.Done.Format("15:04:05")[:7]+"0"]++
		}
	}
	var last acquisition
	for _, a := range acquisitions(requests) {
		why := a.unsteered()
		if why == "" || a.service == last.service && a.Done.Equal(last.Done) {
			continue // or the second address of the same request
		}
		last = a
		o.unsteered[why]++
		if a.Chosen != history.FailedOpen {
			o.unexcused = append(o.unexcused, fmt.Sprintf("%s: %s %sd by %s at %s, chosen %s", why, a.service, a.Verb, a.User, a.Done.Format("15:04:05.000"), a.Chosen))
		}
	}
	return o
}

// share is the part of all creations that was not steered.
func (o outcome) share() float64 {
	return float64(o.unsteered[isStranger]+o.unsteered[isOutside]) / float64(max(1, o.creations))
}

// String is for the report.
func (o outcome) String() string {
	lines := []string{fmt.Sprintf("%d creations, unsteered %v (%.2f %%), failed open %v", o.creations, o.unsteered, 100*o.share(), o.failedOpen)}
	return strings.Join(append(lines, o.unexcused...), "\n")
}

// expectKept wants every promise to be kept that holds while a webhook answers.
func (e *environment) expectKept(ctx context.Context, o outcome, v history.Verdict, failedOpen float64, absences int) {
	GinkgoHelper()
	Expect(o.unexcused).To(BeEmpty(), "the webhook answered, and they were not steered")
	Expect(o.unsteered[isStranger]+o.unsteered[isOutside]).To(BeNumerically("<=", failedOpen), "more than the API servers counted")
	Expect(v.Faults).To(BeEmpty(), "neither the API server nor an outage explains it")
	// Upstream's two deletions by name meet in one of 10,000 creations; ten times that is a fault.
	Expect(len(v.In(history.ByRepair))).To(BeNumerically("<=", 1+o.creations/1000), "%s", v)
	for _, reason := range []string{history.ByAbsence, history.ByUnseenEnd} {
		Expect(len(v.In(reason))).To(BeNumerically("<=", 1+absences/10), "%s", v)
	}
	var known []string
	for _, d := range v.Excused {
		known = append(known, d.Address.String())
	}
	for _, breach := range e.Breaches(ctx) {
		Expect(slices.ContainsFunc(known, func(address string) bool { return strings.Contains(breach, "address "+address+" is held") })).
			To(BeTrue(), "%s, and no API server has logged how", breach)
	}
}
