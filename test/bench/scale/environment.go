package scale

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/seed"
)

const (
	// timeout is how long anything may take.
	timeout = 4 * time.Minute
	// helpers are the workers of what is not measured.
	helpers = 16
	// portion is how many Services are written at a time, after their IPAddresses: one without its
	// Service has a minute's grace, a Service without an IPAddress is repaired at once.
	portion = 10_000
)

// environment is a cluster with a world in it. Its methods are for one goroutine, but for those
// that say otherwise.
type environment struct {
	*cluster.Cluster
	options    Options
	world      world
	level      Level
	objects    *seed.Objects
	client     client.Client
	balancer   *framework.Balancer
	kubeconfig string
	replicas   []*framework.Manager
	ending     atomic.Bool // whether replicas may end
	log        *progress.Log
}

// start starts a control plane with the operator's manifests, nodes and namespaces.
func start(ctx context.Context, o Options, log *progress.Log) (*environment, error) {
	log.Step("starting etcd and kube-apiserver")
	ranges := rangesOf(0)
	c, err := cluster.Open(ctx, framework.Options{ServiceClusterIPRange: ranges[0].String() + "," + ranges[1].String()}, log)
	if err != nil {
		return nil, err
	}
	e := &environment{Cluster: c, options: o, log: log, world: world{namespaces: o.Namespaces, few: o.Levels[0].Services, began: metav1.NewTime(time.Now().Truncate(time.Second))}}
	if err := e.setUp(ctx); err != nil {
		return nil, errors.Join(err, e.stop())
	}
	return e, nil
}

func (e *environment) stop() error {
	var err error
	if e.objects != nil {
		err = e.objects.Close()
	}
	return errors.Join(err, e.Stop())
}

func (e *environment) setUp(ctx context.Context) (err error) {
	if e.objects, err = seed.Open(ctx, e.Etcd.URL()); err != nil {
		return err
	}
	if err := e.readTemplate(ctx); err != nil {
		return err
	}
	if err := e.InstallCRDs(ctx); err != nil {
		return err
	}
	crlog.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	if e.client, err = client.New(e.AdminConfig(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if e.balancer, err = e.StartBalancer(); err != nil {
		return err
	}
	if err := e.Install(ctx, e.balancer, func(map[string]any) {}); err != nil {
		return err
	}
	if e.kubeconfig, err = e.OperatorKubeconfig(); err != nil {
		return err
	}
	e.log.Step("writing %d nodes and %d namespaces", e.options.Nodes, e.options.Namespaces)
	now := time.Now()
	return errors.Join(
		e.write(ctx, e.options.Nodes, func(i int) seed.Object { return e.world.nodeAt(i, now) }),
		e.write(ctx, e.options.Namespaces, func(i int) seed.Object { return e.world.namespaceAt(i, e.lastLevel().Ranges, "") }),
	)
}

func (e *environment) lastLevel() Level { return e.options.Levels[len(e.options.Levels)-1] }

// readTemplate has the API server make a Service, and keeps what it made.
func (e *environment) readTemplate(ctx context.Context) error {
	if err := e.CreateTemplate(ctx, "10.96.0.10", "fd00:10:96::a"); err != nil {
		return err
	}
	namespace, name, _ := strings.Cut(cluster.Template, "/")
	service, err := e.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the template: %w", err)
	}
	e.world.service = service
	for _, address := range service.Spec.ClusterIPs {
		ip, err := e.Client.NetworkingV1().IPAddresses().Get(ctx, address, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading the IPAddress of the template: %w", err)
		}
		e.world.addresses = append(e.world.addresses, ip)
	}
	service.ResourceVersion = ""
	return nil
}

// write writes n objects as fast as an API server's caches follow.
func (e *environment) write(ctx context.Context, n int, object func(int) seed.Object) error {
	return e.objects.Write(ctx, 0, n, seed.Pace, object)
}

// grow makes the world that of a level.
func (e *environment) grow(ctx context.Context, to Level) error {
	if err := e.growRanges(ctx, e.level.Ranges, to.Ranges); err != nil {
		return err
	}
	if err := e.growBlocks(ctx, to.Services); err != nil {
		return err
	}
	e.level.Ranges = to.Ranges
	e.log.Step("writing %d Services with their IPAddresses", to.Services-e.level.Services)
	for e.level.Services < to.Services {
		n := min(to.Services, e.level.Services+portion)
		if err := e.growServices(ctx, e.level.Services, n); err != nil {
			return err
		}
		e.level.Services = n
	}
	return e.Settle(ctx, time.Minute)
}

// growBlocks writes the IPv6 ranges of so many Services, and of those that events add.
func (e *environment) growBlocks(ctx context.Context, services int) error {
	last := (services + e.options.Events) / block
	return e.objects.Write(ctx, 1, last+1, 0, func(k int) seed.Object {
		return e.world.serviceCIDR('m', k, fmt.Sprint("more-", k), rangesOf(k * block)[1].String())
	})
}

// growServices writes Services and, before them, their IPAddresses.
func (e *environment) growServices(ctx context.Context, from, to int) error {
	if err := e.objects.Write(ctx, 2*from, 2*to, seed.Pace, e.world.ipAddressAt); err != nil {
		return err
	}
	if err := e.waitServed(ctx, addressesOf(to - 1)[1]); err != nil {
		return err
	}
	return e.objects.Write(ctx, from, to, seed.Pace, func(i int) seed.Object { return e.world.serviceAt(i, "") })
}

// waitServed waits until the API server serves an IPAddress from its cache, and its own informers,
// which follow that, have had a moment.
func (e *environment) waitServed(ctx context.Context, address string) error {
	err := e.until(ctx, "IPAddress "+address, func(ctx context.Context) (bool, error) {
		_, err := e.Client.NetworkingV1().IPAddresses().Get(ctx, address, metav1.GetOptions{ResourceVersion: "0"})
		return err == nil, nil
	})
	if err != nil {
		return err
	}
	return e.Settle(ctx, 3*time.Second)
}

// growRanges writes ranges, and creates a policy for each.
func (e *environment) growRanges(ctx context.Context, from, to int) error {
	if from == to {
		return nil
	}
	e.log.Step("writing %d ranges, and creating a policy for each", to-from)
	if err := e.objects.Write(ctx, from, to, seed.Pace, e.world.rangeAt); err != nil {
		return err
	}
	_, err := load.Load{Workers: helpers, Count: to - from}.Run(ctx, func(ctx context.Context, i int) error {
		if err := e.client.Create(ctx, policyAt(from+i)); err != nil {
			return fmt.Errorf("creating policy %s: %w", rangeName(from+i), err)
		}
		return nil
	})
	return err
}

// until asks until something is so, and says what was waited for otherwise.
func (e *environment) until(ctx context.Context, what string, so wait.ConditionWithContextFunc) error {
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, timeout, true, so); err != nil {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return nil
}

// addReplica starts a replica that may lead, and returns when it gets requests.
func (e *environment) addReplica(ctx context.Context) (*framework.Manager, error) {
	// The first run of all builds the manager, which is not part of its start.
	if _, _, err := e.RunManager(ctx, framework.ManagerOptions{Args: []string{"version"}}); err != nil {
		return nil, err
	}
	m, err := e.StartManager(ctx, framework.ManagerOptions{
		Kubeconfig: e.kubeconfig, Webhooks: true, NoWait: true, Args: []string{"--leader-elect=true", "--namespace=" + cluster.Home},
	})
	if err != nil {
		return nil, err
	}
	e.replicas = append(e.replicas, m)
	e.balancer.Add(framework.Backend{Address: m.WebhookAddress(), Ready: e.asKubelet(m)})
	ready, stop := context.WithTimeout(ctx, timeout) // how long it takes is what is measured
	defer stop()
	return m, m.WaitReady(ready)
}

// asKubelet asks a manager whether it is ready, and once it is, no more often than kubelet does. A
// probe costs more than most events: a new TLS connection, and another one to the webhook. Where
// replicas end they are asked always: kubelet knows of a Pod that it ends, or of which the process
// is gone.
func (e *environment) asKubelet(m *framework.Manager) func(context.Context) error {
	const period = 10 * time.Second // of config/manager
	var content time.Time
	return func(ctx context.Context) error {
		if time.Since(content) < period && !e.ending.Load() {
			return nil
		}
		err := m.Healthy(ctx, "/readyz")
		if err == nil {
			content = time.Now()
		}
		return err
	}
}

// stopReplicas ends all replicas for good.
func (e *environment) stopReplicas() (err error) {
	for _, m := range e.replicas {
		e.balancer.Remove(m.WebhookAddress())
		err = errors.Join(err, m.Stop())
	}
	e.replicas = nil
	e.balancer.Cut()
	return err
}

// waitKept waits until the operator keeps an IPAddress for each reservation. Each list of thousands
// keeps the API server from what is waited for.
func (e *environment) waitKept(ctx context.Context) error {
	options := metav1.ListOptions{LabelSelector: v1alpha1.LabelPurpose + "=" + v1alpha1.PurposeReservation, ResourceVersion: "0"}
	err := wait.PollUntilContextTimeout(ctx, 2*time.Second, timeout, true, func(ctx context.Context) (bool, error) {
		list, err := e.Client.NetworkingV1().IPAddresses().List(ctx, options)
		return err == nil && len(list.Items) >= e.level.Ranges*reserved, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the IPAddresses of reservations: %w", err)
	}
	return nil
}
