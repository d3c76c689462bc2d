package steering

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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

// timeout is how long anything may take: most takes milliseconds, a thousand policies a minute.
const timeout = 4 * time.Minute

// environment is a cluster whose Services are steered. Its methods are for one goroutine, but for
// those that say otherwise.
type environment struct {
	*cluster.Cluster
	balancer   *framework.Balancer
	replicas   []*framework.Manager
	kubeconfig string
	client     client.WithWatch
	webhooks   webhooks
	log        *progress.Log
}

// start starts a control plane with one replica, whose webhooks are asked.
func start(ctx context.Context, log *progress.Log) (*environment, error) {
	log.Step("starting etcd and kube-apiserver")
	c, err := cluster.Open(ctx, framework.Options{ServiceClusterIPRange: cluster.Range.String() + "," + range6}, log)
	if err != nil {
		return nil, err
	}
	e := &environment{Cluster: c, log: log}
	if err := e.setUp(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return e, nil
}

func (e *environment) setUp(ctx context.Context) (err error) {
	if err := e.CreateTemplate(ctx, "10.96.0.10"); err != nil { // in the static band, where no copy lies
		return err
	}
	if err := e.InstallCRDs(ctx); err != nil {
		return err
	}
	if e.client, err = newClient(e); err != nil {
		return err
	}
	if e.balancer, err = e.StartBalancer(); err != nil {
		return err
	}
	if err := e.install(ctx); err != nil {
		return err
	}
	if e.kubeconfig, err = e.OperatorKubeconfig(); err != nil {
		return err
	}
	if err := e.addReplica(ctx); err != nil {
		return err
	}
	e.webhooks, err = e.readWebhooks(ctx)
	return err
}

// newClient is for what the typed client does not know, and for webhook configurations.
func newClient(e *environment) (client.WithWatch, error) {
	crlog.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), admissionregistrationv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(e.AdminConfig(), client.Options{Scheme: scheme})
}

// addReplica starts one more replica, and returns when all of them are given requests.
func (e *environment) addReplica(ctx context.Context) error {
	e.log.Step("starting replica %d of the manager", len(e.replicas)+1)
	replica, err := e.StartManager(ctx, framework.ManagerOptions{
		Kubeconfig: e.kubeconfig, Webhooks: true, NoWait: true,
		Args: []string{"--leader-elect=true", "--namespace=" + cluster.Home},
	})
	if err != nil {
		return err
	}
	e.replicas = append(e.replicas, replica)
	e.balancer.Add(framework.Backend{
		Address: replica.WebhookAddress(),
		Ready:   func(ctx context.Context) error { return replica.Healthy(ctx, "/readyz") },
	})
	return e.waitServing(ctx)
}

// restart starts the only replica anew, so that its memory is not that of what it has done before.
func (e *environment) restart(ctx context.Context) error {
	if err := e.replicas[0].Stop(); err != nil {
		return err
	}
	if err := e.replicas[0].Start(ctx); err != nil {
		return err
	}
	return e.waitServing(ctx)
}

// waitServing waits until all replicas are ready and one of them leads.
func (e *environment) waitServing(ctx context.Context) error {
	for _, replica := range e.replicas {
		if err := replica.WaitReady(ctx); err != nil {
			return err
		}
	}
	err := e.until(ctx, "replicas of which one leads", func(ctx context.Context) (bool, error) {
		leaders, err := e.sum(ctx, "leader_election_master_status")
		return leaders == 1 && len(e.balancer.Ready()) == len(e.replicas), err
	})
	e.balancer.Cut() // connections that stay open would leave a new replica without requests
	return err
}

// until asks until something is so, and says what was waited for otherwise.
func (e *environment) until(ctx context.Context, what string, so wait.ConditionWithContextFunc) error {
	return e.untilAll(ctx, 1, what, so)
}

// untilAll is until for a condition that lists n objects. The more there are, the less often it
// asks: a list of a thousand every 20 ms would keep the API server from what is waited for.
func (e *environment) untilAll(ctx context.Context, n int, what string, so wait.ConditionWithContextFunc) error {
	interval := max(20*time.Millisecond, time.Duration(n)*time.Millisecond/2)
	if err := wait.PollUntilContextTimeout(ctx, interval, timeout, true, so); err != nil {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return nil
}

// sum adds up a metric of all replicas.
func (e *environment) sum(ctx context.Context, name string, labels ...string) (sum float64, err error) {
	for _, replica := range e.replicas {
		metrics, err := replica.Metrics(ctx)
		if err != nil {
			return 0, err
		}
		value, _ := metrics.Value(name, labels...)
		sum += value
	}
	return sum, nil
}
