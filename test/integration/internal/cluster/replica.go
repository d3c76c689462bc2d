package cluster

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// AddReplicas starts replicas that end with the calling node, and waits until the API server asks
// them and one leads. args are flags beside those of the cluster.
func (c *Cluster) AddReplicas(ctx context.Context, n int, args ...string) (added []*framework.Manager) {
	GinkgoHelper()
	for range n {
		added = append(added, c.LaunchReplica(ctx, "", c.OperatorKubeconfig(c.Access), args...))
	}
	if n > 0 {
		DeferCleanup(func() { stop(added) }) // comes before the end of each
		for _, replica := range added {
			Expect(replica.WaitReady(ctx)).To(Succeed()) // one that ended at once is no fewer
		}
		c.WaitServing(ctx)
	}
	return added
}

// stop ends replicas at the same time: each serves requests for a while longer, and waits up to
// five seconds for connections that were opened and have brought none.
func stop(replicas []*framework.Manager) {
	GinkgoHelper()
	var all errgroup.Group
	for _, replica := range replicas {
		all.Go(replica.Stop)
	}
	Expect(all.Wait()).To(Succeed())
}

// LaunchReplica starts a replica that ends with the calling node, and does not wait for it. program
// is a manager of another commit, empty for ours.
func (c *Cluster) LaunchReplica(ctx context.Context, program, kubeconfig string, args ...string) *framework.Manager {
	GinkgoHelper()
	replica := suite.Manager(ctx, c.ControlPlane, framework.ManagerOptions{
		Program: program, Kubeconfig: kubeconfig, Race: !c.options.Plain, Webhooks: true, NoWait: true,
		Args: slices.Concat([]string{"--leader-elect=true", "--namespace=" + OperatorNamespace}, c.options.OperatorArgs, args),
	})
	c.Admit(replica)
	c.replicas = append(c.replicas, replica)
	return replica
}

// Admit lets the API server ask a replica, once it is ready.
func (c *Cluster) Admit(replica *framework.Manager) {
	c.Balancer.Add(framework.Backend{
		Address: replica.WebhookAddress(),
		Ready:   func(ctx context.Context) error { return replica.Healthy(ctx, "/readyz") },
	})
}

// OperatorKubeconfig writes a kubeconfig with which the operator's user reaches an API server.
func (c *Cluster) OperatorKubeconfig(api *framework.Access) string {
	GinkgoHelper()
	path := filepath.Join(filepath.Dir(api.Kubeconfig()), "operator.kubeconfig")
	Expect(framework.WriteKubeconfig(path, OperatorConfig(api))).To(Succeed())
	return path
}

// OperatorConfig is how the operator's user connects: with a certificate, which outlives any token.
func OperatorConfig(api *framework.Access) *rest.Config {
	GinkgoHelper()
	const group = "system:serviceaccounts"
	return suite.Must(api.ConfigForUser("system:serviceaccount:"+OperatorNamespace+":"+OperatorAccount, group, group+":"+OperatorNamespace))
}

// Replicas returns the managers of ours that run, paused ones included.
func (c *Cluster) Replicas() []*framework.Manager {
	return slices.DeleteFunc(slices.Clone(c.replicas), func(r *framework.Manager) bool { return !r.Running() })
}

// RemoveReplica stops a replica for good.
func (c *Cluster) RemoveReplica(replica *framework.Manager) {
	GinkgoHelper()
	c.Balancer.Remove(replica.WebhookAddress())
	Expect(replica.Stop()).To(Succeed())
	c.replicas = slices.DeleteFunc(c.replicas, func(r *framework.Manager) bool { return r == replica })
}

// StopReplicas stops all replicas, as an admin does who scales the Deployment to nothing.
func (c *Cluster) StopReplicas() {
	GinkgoHelper()
	stop(c.Replicas())
	Eventually(c.Balancer.Ready).Should(BeEmpty())
	c.Balancer.Cut()
}

// StartReplicas starts those again that do not run, and waits as AddReplicas does.
func (c *Cluster) StartReplicas(ctx context.Context) {
	GinkgoHelper()
	for _, replica := range c.replicas {
		if !replica.Running() {
			Expect(replica.Start(ctx)).To(Succeed())
		}
	}
	c.WaitServing(ctx)
}

// WaitServing waits until the running replicas are ready, one leads, and any webhooks are called.
func (c *Cluster) WaitServing(ctx context.Context) {
	GinkgoHelper()
	running := c.Replicas()
	Expect(running).NotTo(BeEmpty())
	for _, replica := range running {
		Expect(replica.WaitReady(ctx)).To(Succeed())
	}
	c.Operator = running[0]
	Eventually(c.Balancer.Ready).Should(HaveLen(len(running)))
	Eventually(c.Leaders).WithArguments(ctx).Should(HaveLen(1))
	if c.HasWebhooks(ctx) {
		Eventually(c.Authorities).WithArguments(ctx).Should(HaveEach(Not(BeEmpty())), "the replicas write them into one configuration after the other")
		Eventually(c.Asks).WithArguments(ctx).WithPolling(200*time.Millisecond).Should(BeTrue(), "the API server asks nobody about Services")
	}
}

// Leaders returns the running managers that lead: one, but for the moments of an election.
func (c *Cluster) Leaders(ctx context.Context) []*framework.Manager {
	GinkgoHelper()
	return slices.DeleteFunc(c.Replicas(), func(r *framework.Manager) bool {
		return MetricOf(ctx, r, "leader_election_master_status") != 1
	})
}

// Leader waits until one manager leads, and returns it with another one.
func (c *Cluster) Leader(ctx context.Context) (leader, other *framework.Manager) {
	GinkgoHelper()
	var leaders []*framework.Manager
	Eventually(func() []*framework.Manager {
		leaders = c.Leaders(ctx)
		return leaders
	}).Should(HaveLen(1))
	others := slices.DeleteFunc(c.Replicas(), func(r *framework.Manager) bool { return r == leaders[0] })
	Expect(others).NotTo(BeEmpty())
	return leaders[0], others[0]
}

// Asks reports whether a replica notices the dry run of a Service's creation.
func (c *Cluster) Asks(ctx context.Context) bool {
	GinkgoHelper()
	before := c.Decisions(ctx, "")
	_, err := c.Client().CoreV1().Services(Namespace).Create(ctx, framework.NewService(Namespace, "webhook-probe"),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return c.Decisions(ctx, "") > before || apierrors.IsForbidden(err)
}

// Unheard is how often a replica heard nothing of its leader for a second, and drew addresses
// itself, which docs/steering.md allows.
func (c *Cluster) Unheard() (n int) {
	for _, replica := range c.Replicas() {
		n += strings.Count(replica.LogTail(1<<20), "The leader did not take a request")
	}
	return n
}
