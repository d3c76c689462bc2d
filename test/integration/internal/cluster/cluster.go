package cluster

import (
	"context"
	"os"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// Patience is how long a wait may take that has no bound of its own. It is generous, for machines are shared.
const Patience = 45 * time.Second

// Options say who looks after a cluster. The zero Options are our operator alone on a dual-stack Kubernetes 1.36.
type Options struct {
	framework.Options
	// WithoutOperator starts none of ours. StartOperator does so later.
	WithoutOperator bool
	// BesideUpstream runs kube-controller-manager's service-cidr-controller.
	BesideUpstream bool
	// OperatorArgs are further flags of our manager.
	OperatorArgs []string
}

// Cluster is a control plane with those who look after it. Its methods are for the goroutine of a spec.
type Cluster struct {
	*framework.ControlPlane
	// Operator is our manager, nil before it is started.
	Operator *framework.Manager
	// Upstream is kube-controller-manager, nil where there is none.
	Upstream *framework.ControllerManager
}

// Start starts a cluster that ends with the calling node.
func Start(ctx context.Context, options Options) *Cluster {
	GinkgoHelper()
	c := &Cluster{ControlPlane: suite.ControlPlane(ctx, options.Options)}
	if options.BesideUpstream {
		c.Upstream = suite.ControllerManager(ctx, c.ControlPlane, framework.ServiceCIDRController)
	}
	if !options.WithoutOperator {
		c.StartOperator(ctx, options.OperatorArgs...)
	}
	return c
}

// StartOperator starts our manager, which ends with the calling node. It becomes the cluster's Operator.
func (c *Cluster) StartOperator(ctx context.Context, args ...string) {
	GinkgoHelper()
	var log string
	// Registered first, so that it runs last: the detector writes until the end.
	DeferCleanup(func() { expectSound(log) })
	c.Operator = suite.Manager(ctx, c.ControlPlane, framework.ManagerOptions{Race: true, Args: args})
	log = c.Operator.LogFile()
}

// expectSound reads the log of a manager that has ended for what no spec would notice otherwise.
func expectSound(log string) {
	GinkgoHelper()
	if log == "" {
		return // it never started, which the spec knows
	}
	content, err := os.ReadFile(log)
	Expect(err).NotTo(HaveOccurred())
	Expect(string(content)).NotTo(ContainSubstring("DATA RACE"))
	Expect(string(content)).NotTo(ContainSubstring("Observed a panic"))
}

// finalizers are those that a ServiceCIDR gets from whoever looks after the cluster.
func (c *Cluster) finalizers() []string {
	var all []string
	if c.Operator != nil {
		all = append(all, OurFinalizer)
	}
	if c.Operator != nil || c.Upstream != nil {
		all = append(all, UpstreamFinalizer)
	}
	return slices.Clip(all)
}

// Paused runs do while our manager is frozen: what happens there is what happens in a cluster without it.
func (c *Cluster) Paused(do func()) {
	GinkgoHelper()
	Expect(c.Operator.Pause()).To(Succeed())
	defer func() { Expect(c.Operator.Resume()).To(Succeed()) }()
	do()
}
