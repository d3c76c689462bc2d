package steering

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// Options say how to set up a bed. The zero Options are one replica on a dual-stack Kubernetes 1.36.
type Options struct {
	framework.Options
	// Replicas is how many replicas run, 1 if it is 0, none if it is negative.
	Replicas int
	// ReplicaArgs are further flags of each replica.
	ReplicaArgs []string
	// Plain runs the replicas without the race detector, for specs about what they do when much is asked of them at once.
	Plain bool
	// Tree is the root of another checkout, whose CRDs and manifests are installed in place of ours. Replicas are ours all the same, but for
	// those that LaunchReplica starts from another program.
	Tree string
	// WithoutWebhooks leaves the webhook configurations away, until AddWebhooks.
	WithoutWebhooks bool
	// ShippedTimeout leaves the webhooks the time-out of config/webhook, for specs about it. All others wait longer, so that a busy machine does
	// not let a request pass unanswered.
	ShippedTimeout bool
}

// Bed is a cluster whose Services are steered. Its methods are for the goroutine of a spec, but where they say otherwise.
type Bed struct {
	*cluster.Cluster
	// Balancer is what leads the API server to the replicas.
	Balancer *framework.Balancer

	policies client.Client
	webhooks []unstructured.Unstructured // as they are rendered
	args     []string
	plain    bool
	shipped  bool // Options.ShippedTimeout
	replicas []*framework.Manager
}

// Start sets up a bed that ends with the calling node. It returns when the API server asks the replicas about Services,
// or when they are ready, if there are no webhooks.
func Start(ctx context.Context, options Options) *Bed {
	GinkgoHelper()
	b := &Bed{
		Cluster: cluster.Start(ctx, cluster.Options{Options: options.Options, WithoutOperator: true}),
		args:    options.ReplicaArgs,
		plain:   options.Plain,
		shipped: options.ShippedTimeout,
	}
	var err error
	b.Balancer, err = b.StartBalancer()
	Expect(err).NotTo(HaveOccurred())
	b.policies = policyClient(b.AdminConfig())
	b.Install(ctx, options.Tree)
	if !options.WithoutWebhooks {
		b.AddWebhooks(ctx)
	}
	if options.Replicas >= 0 {
		b.AddReplicas(ctx, max(options.Replicas, 1))
	}
	return b
}
