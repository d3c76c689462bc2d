package steering

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// User is as whom the operator speaks to the API server.
const User = "system:serviceaccount:" + Namespace + ":" + Account

// AddReplicas starts replicas that end with the calling node, and waits until the API server asks them and one of them leads.
// args are flags beside those of the bed.
func (b *Bed) AddReplicas(ctx context.Context, n int, args ...string) (added []*framework.Manager) {
	GinkgoHelper()
	for range n {
		added = append(added, b.LaunchReplica(ctx, "", b.OperatorKubeconfig(b.Access), args...))
	}
	b.WaitServing(ctx)
	return added
}

// LaunchReplica starts a replica that ends with the calling node, and does not wait for it. program is a manager of another commit, empty
// for ours.
func (b *Bed) LaunchReplica(ctx context.Context, program, kubeconfig string, args ...string) *framework.Manager {
	GinkgoHelper()
	replica := suite.Manager(ctx, b.ControlPlane, framework.ManagerOptions{
		Program: program, Kubeconfig: kubeconfig, Race: !b.plain, Webhooks: true, NoWait: true,
		Args: slices.Concat([]string{"--leader-elect=true", "--namespace=" + Namespace}, b.args, args),
	})
	b.Balancer.Add(framework.Backend{
		Address: replica.WebhookAddress(),
		Ready:   func(ctx context.Context) error { return replica.Healthy(ctx, "/readyz") },
	})
	b.replicas = append(b.replicas, replica)
	return replica
}

// OperatorKubeconfig writes a kubeconfig with which the operator's user reaches an API server: with a certificate, which outlives any token.
func (b *Bed) OperatorKubeconfig(api *framework.Access) string {
	GinkgoHelper()
	config, err := api.ConfigForUser(User, "system:serviceaccounts", "system:serviceaccounts:"+Namespace)
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(filepath.Dir(api.Kubeconfig()), "operator.kubeconfig")
	Expect(framework.WriteKubeconfig(path, config)).To(Succeed())
	return path
}

// Replicas returns the replicas that run, paused ones included.
func (b *Bed) Replicas() []*framework.Manager {
	return slices.DeleteFunc(slices.Clone(b.replicas), func(r *framework.Manager) bool { return !r.Running() })
}

// StopReplicas stops all replicas, as an admin does who scales the Deployment to nothing.
func (b *Bed) StopReplicas() {
	GinkgoHelper()
	for _, replica := range b.Replicas() {
		Expect(replica.Stop()).To(Succeed())
	}
	Eventually(b.Balancer.Ready).WithTimeout(cluster.Patience).Should(BeEmpty())
	b.Balancer.Cut()
}

// StartReplicas starts those again that do not run, and waits as AddReplicas does.
func (b *Bed) StartReplicas(ctx context.Context) {
	GinkgoHelper()
	for _, replica := range b.replicas {
		if !replica.Running() {
			Expect(replica.Start(ctx)).To(Succeed())
		}
	}
	b.WaitServing(ctx)
}

// WaitServing waits until the replicas that run are ready, one of them leads, and the API server asks them about Services if there are webhooks.
func (b *Bed) WaitServing(ctx context.Context) {
	GinkgoHelper()
	running := b.Replicas()
	Expect(running).NotTo(BeEmpty())
	for _, replica := range running {
		Expect(replica.WaitReady(ctx)).To(Succeed())
	}
	b.Operator = running[0]
	Eventually(b.Balancer.Ready).WithTimeout(cluster.Patience).Should(HaveLen(len(running)))
	Eventually(func() int { return len(b.Leaders(ctx)) }).WithTimeout(cluster.Patience).Should(Equal(1), "one of them leads")
	if b.HasWebhooks(ctx) {
		b.waitAsked(ctx)
	}
}

// Leaders returns the running replicas that lead: one, but for the moments of an election.
func (b *Bed) Leaders(ctx context.Context) []*framework.Manager {
	GinkgoHelper()
	return slices.DeleteFunc(b.Replicas(), func(r *framework.Manager) bool {
		metrics, err := r.Metrics(ctx)
		Expect(err).NotTo(HaveOccurred())
		leads, _ := metrics.Value("leader_election_master_status")
		return leads != 1
	})
}

// HasWebhooks reports whether the mutating webhook configuration is there.
func (b *Bed) HasWebhooks(ctx context.Context) bool {
	GinkgoHelper()
	_, err := b.Client().AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, Configuration, metav1.GetOptions{})
	Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
	return err == nil
}

// waitAsked waits until the API server asks about Services, and trusts those whom it asks about anything else.
func (b *Bed) waitAsked(ctx context.Context) {
	GinkgoHelper()
	Eventually(b.Authorities).WithArguments(ctx).WithTimeout(cluster.Patience).
		Should(HaveEach(Not(BeEmpty())), "the replicas write them into one configuration after the other")
	Eventually(func() bool { return b.asks(ctx) }).WithTimeout(cluster.Patience).WithPolling(200*time.Millisecond).
		Should(BeTrue(), "the API server asks nobody about Services")
}

// Authorities are those that the API server trusts when it calls a webhook of ours, one entry for each webhook of both configurations.
func (b *Bed) Authorities(ctx context.Context) (bundles [][]byte) {
	GinkgoHelper()
	configurations := b.Client().AdmissionregistrationV1()
	mutating, err := configurations.MutatingWebhookConfigurations().Get(ctx, Configuration, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	validating, err := configurations.ValidatingWebhookConfigurations().Get(ctx, Configuration, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, webhook := range mutating.Webhooks {
		bundles = append(bundles, webhook.ClientConfig.CABundle)
	}
	for _, webhook := range validating.Webhooks {
		bundles = append(bundles, webhook.ClientConfig.CABundle)
	}
	return bundles
}

// asks reports whether a replica notices somebody who would like to create a Service.
func (b *Bed) asks(ctx context.Context) bool {
	GinkgoHelper()
	before := b.Decisions(ctx)
	_, err := b.Client().CoreV1().Services(cluster.Namespace).Create(ctx, framework.NewService(cluster.Namespace, "webhook-probe"),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return b.Decisions(ctx) > before || apierrors.IsForbidden(err)
}
