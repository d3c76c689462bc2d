package steering

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// range6 is what the API server allocates IPv6 addresses from.
const range6 = "fd00:10:96::/112"

// decisionsTotal is the metric of answers to Services.
const decisionsTotal = "clusterip_operator_admission_decisions_total"

// patience is how long anything may take: most takes milliseconds, a thousand policies a minute.
const patience = 4 * time.Minute

// bed is a cluster whose Services are steered. Its methods are for one goroutine, but for those that say otherwise.
type bed struct {
	*cluster.Cluster
	balancer   *framework.Balancer
	replicas   []*framework.Manager
	kubeconfig string
	policies   client.Client
	hooks      hooks
	log        *progress.Log
}

// start starts a control plane with one replica, whose webhooks are asked.
func start(ctx context.Context, log *progress.Log) (*bed, error) {
	log.Step("starting etcd and kube-apiserver")
	c, err := cluster.Open(ctx, framework.Options{ServiceClusterIPRange: cluster.Range.String() + "," + range6}, log)
	if err != nil {
		return nil, err
	}
	b := &bed{Cluster: c, log: log}
	if err := b.furnish(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return b, nil
}

func (b *bed) furnish(ctx context.Context) (err error) {
	if err := b.CreateTemplate(ctx, "10.96.0.10"); err != nil { // in the static band, where no copy lies
		return err
	}
	if err := b.InstallCRDs(ctx); err != nil {
		return err
	}
	if b.policies, err = policyClient(b); err != nil {
		return err
	}
	if b.balancer, err = b.StartBalancer(); err != nil {
		return err
	}
	if err := b.install(ctx); err != nil {
		return err
	}
	if b.kubeconfig, err = b.operatorKubeconfig(); err != nil {
		return err
	}
	if err := b.addReplica(ctx); err != nil {
		return err
	}
	b.hooks, err = b.readHooks(ctx)
	return err
}

func policyClient(b *bed) (client.Client, error) {
	crlog.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.New(b.AdminConfig(), client.Options{Scheme: scheme})
}

// addReplica starts one more replica, and returns when all of them are given requests.
func (b *bed) addReplica(ctx context.Context) error {
	b.log.Step("starting replica %d of the manager", len(b.replicas)+1)
	replica, err := b.StartManager(ctx, framework.ManagerOptions{
		Kubeconfig: b.kubeconfig, Webhooks: true, NoWait: true,
		Args: []string{"--leader-elect=true", "--namespace=" + home},
	})
	if err != nil {
		return err
	}
	b.replicas = append(b.replicas, replica)
	b.balancer.Add(framework.Backend{
		Address: replica.WebhookAddress(),
		Ready:   func(ctx context.Context) error { return replica.Healthy(ctx, "/readyz") },
	})
	return b.waitServing(ctx)
}

// restart starts the only replica anew, so that its memory is not that of what it has done before.
func (b *bed) restart(ctx context.Context) error {
	if err := b.replicas[0].Stop(); err != nil {
		return err
	}
	if err := b.replicas[0].Start(ctx); err != nil {
		return err
	}
	return b.waitServing(ctx)
}

// waitServing waits until all replicas are ready and one of them leads.
func (b *bed) waitServing(ctx context.Context) error {
	for _, replica := range b.replicas {
		if err := replica.WaitReady(ctx); err != nil {
			return err
		}
	}
	err := b.until(ctx, "replicas of which one leads", func(ctx context.Context) (bool, error) {
		leaders, err := b.sum(ctx, "leader_election_master_status")
		return leaders == 1 && len(b.balancer.Ready()) == len(b.replicas), err
	})
	b.balancer.CloseIdle() // connections that stay open would leave a new replica without requests
	return err
}

// until asks until something is so, and says what was waited for otherwise.
func (b *bed) until(ctx context.Context, what string, so wait.ConditionWithContextFunc) error {
	if err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, so); err != nil {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return nil
}

// sum adds up a metric of all replicas.
func (b *bed) sum(ctx context.Context, name string, labels ...string) (sum float64, err error) {
	for _, replica := range b.replicas {
		metrics, err := replica.Metrics(ctx)
		if err != nil {
			return 0, err
		}
		value, _ := metrics.Value(name, labels...)
		sum += value
	}
	return sum, nil
}
