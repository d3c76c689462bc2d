// Package cluster starts a real control plane, with our operator, kube-controller-manager, both or
// neither to look after ServiceCIDRs, IPAddresses and policies.
//
// It models a [Cluster] with the verbs that specs need. Writers fail the spec when the API server
// refuses; those that begin with Try return its answer. Readers return plain values, also for what
// is absent, so that Eventually and Consistently can poll them. [Cluster.Misplaced] judges policies
// by its own rules, from objects alone. A manager that logs a panic or a data race fails the spec.
// Where specs name no time they wait for [Timeout].
//
// Start with [Start].
package cluster

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
)

// Timeout is how long Eventually waits by default. It is generous, for machines are shared.
const Timeout = 45 * time.Second

func init() {
	SetDefaultEventuallyTimeout(Timeout)
	SetDefaultEventuallyPollingInterval(25 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(50 * time.Millisecond)
	log.SetLogger(GinkgoLogr)
}

// Options say which controllers look after a cluster. The zero Options are our operator alone on a
// dual-stack Kubernetes 1.37, as an administrator, without webhooks and policies.
type Options struct {
	framework.Options
	// WithoutOperator starts none of ours. StartOperator does so later.
	WithoutOperator bool
	// BesideUpstream runs kube-controller-manager's service-cidr-controller.
	BesideUpstream bool
	// Upstream are further controllers that it runs.
	Upstream []string
	// OperatorArgs are further flags of each of our managers.
	OperatorArgs []string

	// Installed applies config/default, as far as it makes sense without nodes. The operator is then
	// Replicas managers that serve webhooks and elect a leader, with config/rbac's permissions.
	Installed bool
	// Replicas is how many managers run where it is installed.
	Replicas int
	// Plain runs replicas without the race detector, for specs that ask much of them at once.
	Plain bool
	// Tree is the root of another checkout, whose CRDs and manifests are installed in place of ours.
	Tree string
	// ShippedTimeout keeps config/webhook's time-out, for specs about it. By default webhooks get a
	// longer one, so that a busy machine lets no request pass unanswered.
	ShippedTimeout bool
}

// Cluster is a control plane with its controllers. Methods are not concurrent unless they say so.
type Cluster struct {
	*framework.ControlPlane
	// Operator is our manager, the first of several, nil before one is started.
	Operator *framework.Manager
	// Upstream is kube-controller-manager, nil where there is none.
	Upstream *framework.ControllerManager
	// Balancer leads the API server to the replicas, like the Service. It can refuse, cut and delay.
	Balancer *framework.Balancer

	options  Options
	policies client.Client
	webhooks []unstructured.Unstructured // as they are rendered
	replicas []*framework.Manager
}

// Start starts a cluster that ends with the calling node. If our operator is installed, the API
// server asks its replicas about Services.
func Start(ctx context.Context, options Options) *Cluster {
	GinkgoHelper()
	c := &Cluster{ControlPlane: suite.ControlPlane(ctx, options.Options), options: options}
	c.policies = c.policyClient()
	if options.BesideUpstream {
		c.Upstream = suite.ControllerManager(ctx, c.ControlPlane, append([]string{framework.ServiceCIDRController}, options.Upstream...)...)
	}
	switch {
	case options.Installed:
		c.Balancer = suite.Must(c.StartBalancer())
		c.Install(ctx, options.Tree)
		c.AddWebhooks(ctx)
		c.AddReplicas(ctx, options.Replicas)
	case !options.WithoutOperator:
		c.StartOperator(ctx, options.OperatorArgs...)
	}
	return c
}

// StartAudited starts a cluster without our operator, and with a log of what ServiceAccounts,
// "namespace:name", ask for.
func StartAudited(ctx context.Context, options framework.Options, accounts ...string) (*Cluster, manifests.AuditLog) {
	GinkgoHelper()
	log, flags := manifests.NewAuditLog(accounts...)
	// Most API servers allow privileged pods, so that only the namespace keeps them out.
	options.Args = append(flags, "--allow-privileged=true")
	return Start(ctx, Options{WithoutOperator: true, Options: options}), log
}

// StartOperator starts our manager as the cluster's Operator. It ends with the calling node.
func (c *Cluster) StartOperator(ctx context.Context, args ...string) {
	GinkgoHelper()
	c.Operator = suite.Manager(ctx, c.ControlPlane, framework.ManagerOptions{Race: true, Args: args})
	c.replicas = append(c.replicas, c.Operator)
}

// Paused runs do while our manager is frozen: what happens then is as in a cluster without it.
func (c *Cluster) Paused(do func()) {
	GinkgoHelper()
	Expect(c.Operator.Pause()).To(Succeed())
	defer func() { Expect(c.Operator.Resume()).To(Succeed()) }()
	do()
}

// Names as users see them. They are written out here, so that a name which changes by mistake in
// the operator's code is noticed.
const (
	// OurFinalizer holds a ServiceCIDR as long as an address needs it.
	OurFinalizer = "clusterip-operator.io/servicecidr-protection"
	// UpstreamFinalizer is kube-controller-manager's.
	UpstreamFinalizer = "networking.k8s.io/service-cidr-finalizer"

	// BandLabel tells the band of an IPAddress, PurposeLabel what one of ours is for.
	BandLabel    = "clusterip-operator.io/band"
	PurposeLabel = "clusterip-operator.io/purpose"
	// ManagedByUs is the managed-by label of ours.
	ManagedByUs = "clusterip-operator.io"

	// Reservation, Cooling and Additional are the purposes.
	Reservation = "reservation"
	Cooling     = "cooling"
	Additional  = "additional"
	// UsageAnnotation tells how much of a ServiceCIDR is used.
	UsageAnnotation = "clusterip-operator.io/usage"
	// AdditionalFrom is the annotation that asks for additional addresses.
	AdditionalFrom = "clusterip-operator.io/additional-ips-from"

	// Ready is upstream's condition, the rest are ours: True means that something is wrong.
	Ready                = "Ready"
	DeletionBlocked      = "clusterip-operator.io/DeletionBlocked"
	NearlyFull           = "clusterip-operator.io/NearlyFull"
	DynamicBandFull      = "clusterip-operator.io/DynamicBandFull"
	StaticBandFull       = "clusterip-operator.io/StaticBandFull"
	NetworkOverlap       = "clusterip-operator.io/NetworkOverlap"
	DefaultRangeMismatch = "clusterip-operator.io/DefaultRangeMismatch"
	WritesRefused        = "clusterip-operator.io/WritesRefused"
	// Migrated tells how far a cluster is on its way from the bitmap.
	Migrated = "clusterip-operator.io/Migrated"

	// CreatedForAnnotation on a ServiceCIDR names the policy for which the operator created it.
	CreatedForAnnotation = "clusterip-operator.io/created-for"

	// Accepted, Conflicting, Programmed, Enforced, Growing, GrowthExhausted are policies' conditions.
	Accepted        = "Accepted"
	Conflicting     = "Conflicting"
	Programmed      = "Programmed"
	Enforced        = "Enforced"
	Growing         = "Growing"
	GrowthExhausted = "GrowthExhausted"

	// operatorReporter begins the names under which our controllers send events.
	operatorReporter = "clusterip-operator"
)
