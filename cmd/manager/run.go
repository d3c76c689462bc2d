package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	config "github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers"
	"github.com/clusterip-operator/clusterip-operator/controllers/cleanup"
	"github.com/clusterip-operator/clusterip-operator/internal/kube"
	"github.com/clusterip-operator/clusterip-operator/internal/timeline"
	"github.com/clusterip-operator/clusterip-operator/internal/version"
)

const (
	// leaseName is the Lease of the leader election.
	leaseName = "clusterip-operator"
	// defaultNamespace is the manager's in config/default; namespaceFile is where a pod finds its own.
	defaultNamespace = "clusterip-operator-system"
	namespaceFile    = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	// startTimeout is how long an API server may be unreachable at the start: longer than its own
	// start takes, shorter than an admin waits.
	startTimeout = 30 * time.Second
)

// gcPercent lets the heap grow by half before a collection, instead of doubling: what the manager
// remembers hardly changes, and the first listing would leave its peak behind. $GOGC outweighs it.
const gcPercent = 50

// serve checks the API server, then puts the manager together and runs it until ctx ends.
func serve(ctx context.Context, c command, log logr.Logger) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if err := c.namespaces(); err != nil {
		return err
	}
	guard, ctx := timeline.NewGuard(ctx)
	server, found, err := c.meet(ctx, log)
	if err != nil {
		return err
	}
	server.Wrap(guard.Wrap)
	if !found.policies {
		log.Info("The API server does not serve " + v1alpha1.GroupVersion.String() + ", so there are no policies and no webhooks; apply config/crd to have them")
		c.config.Webhook.BindAddress = "0"
	}
	if err := c.preflight(ctx, server, found); err != nil {
		return err
	}
	mgr, err := c.manager(ctx, server, guard, found)
	if err != nil {
		return err
	}
	log.Info("Starting", "version", version.String(), "server", server.Host)
	err = mgr.Start(ctx)
	if proof := guard.Proof(); proof != nil {
		return proof // the manager was asked to end because of it
	}
	if err != nil {
		return err
	}
	log.Info("The manager stops, as asked")
	return nil
}

// preflight looks for what would keep the manager from its work: missing permissions, used ports.
func (c command) preflight(ctx context.Context, server *rest.Config, found api) error {
	authorization, err := authorizationv1.NewForConfig(server)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := controllers.Preflight(ctx, authorization.SelfSubjectAccessReviews(), c.needs(found)); err != nil {
		return err
	}
	return c.portsAreFree()
}

// manager puts the manager together.
func (c command) manager(ctx context.Context, server *rest.Config, guard *timeline.Guard, found api) (manager.Manager, error) {
	lock, err := c.lock(server, guard)
	if err != nil {
		return nil, err
	}
	settings := managerOptions(c.config, found)
	if lock != nil {
		settings.LeaderElectionResourceLockInterface = lock
	}
	mgr, err := ctrl.NewManager(server, settings)
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return nil, err
	}
	o := options(c.config)
	o.GroupVersion, o.Policies, o.Lock = found.version, found.policies, lock
	o.Replica, o.Version = replicaName(), version.String()
	return mgr, controllers.Setup(ctx, mgr, o)
}

// cleanUp takes away what the loops left.
func cleanUp(ctx context.Context, c command, log logr.Logger) error {
	server, found, err := c.meet(ctx, log)
	if err != nil {
		return err
	}
	direct, err := client.New(server, client.Options{Scheme: found.scheme})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	home := cmp.Or(c.home(), defaultNamespace)
	return cleanup.Run(ctx, cleanup.Options{
		Client: direct, Lease: client.ObjectKey{Namespace: cmp.Or(c.config.LeaderElection.Namespace, home), Name: leaseName},
		Namespace: home, Force: c.force, DryRun: c.dryRun, Out: os.Stdout, Now: time.Now(),
	})
}

// home is the operator's namespace: the configured one, or the pod's; empty outside of a pod.
func (c command) home() string {
	if ns := cmp.Or(c.config.Namespace, os.Getenv("POD_NAMESPACE")); ns != "" {
		return ns
	}
	text, _ := os.ReadFile(namespaceFile)
	return strings.TrimSpace(string(text))
}

// namespaces puts the pod's namespace where the configuration names none. Outside of a pod,
// namespaces that are needed must be configured.
func (c *command) namespaces() error {
	o := &c.config
	o.Namespace = c.home()
	o.LeaderElection.Namespace = cmp.Or(o.LeaderElection.Namespace, o.Namespace)
	if o.LeaderElection.Enabled && o.LeaderElection.Namespace == "" {
		return errors.New("the leader election needs a namespace for its Lease, and this is no pod: " +
			"give --namespace or --leader-election-namespace, or --leader-elect=false for a single manager")
	}
	if o.Webhook.BindAddress != "0" && o.Namespace == "" {
		return errors.New("the webhooks need a namespace for their certificate, and this is no pod: " +
			"give --namespace, or --webhook-bind-address=0 for none")
	}
	// The ConfigMap of exclusive policies lies in it.
	o.Namespace = cmp.Or(o.Namespace, defaultNamespace)
	return nil
}

// needs is what the configuration asks of the API server beside the work of every loop.
func (c command) needs(served api) controllers.Needs {
	o := c.config
	n := controllers.Needs{
		Reviews:      o.Metrics.Secure && o.Metrics.BindAddress != "0",
		Policies:     served.policies,
		History:      o.History.Enabled,
		Certificates: o.Webhook.BindAddress != "0" && o.Webhook.CertDir == "",
		Namespace:    o.Namespace, Configuration: o.Webhook.Configuration,
	}
	if o.LeaderElection.Enabled {
		n.LeaseNamespace = o.LeaderElection.Namespace
	}
	return n
}

// lock returns the lock of the leader election, nil without one.
func (c command) lock(server *rest.Config, guard *timeline.Guard) (*controllers.Lock, error) {
	o := c.config
	if !o.LeaderElection.Enabled {
		return nil, nil
	}
	return controllers.NewLock(server, guard, o.LeaderElection.Namespace, leaseName, replicaName(), webhookAddress(o.Webhook.BindAddress, os.Getenv("POD_IP")))
}

// replicaName is that of the pod.
func replicaName() string {
	host, _ := os.Hostname()
	return cmp.Or(os.Getenv("POD_NAME"), strings.ToLower(host), "manager")
}

// webhookAddress is where other replicas reach our webhooks: their bind address or, if that is
// every address, the pod's. It is empty if unknown or without webhooks: replicas then draw alone.
func webhookAddress(bind, pod string) string {
	host, port, err := net.SplitHostPort(bind)
	if err != nil {
		return ""
	}
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		host = pod
	}
	if host == "" {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// portsAreFree names the flag of an address that is in use, which the servers' own errors do not.
func (c command) portsAreFree() error {
	var errs []error
	for _, a := range []struct{ flag, address string }{
		{"--metrics-bind-address", c.config.Metrics.BindAddress},
		{"--health-probe-bind-address", c.config.Health.BindAddress},
		{"--webhook-bind-address", c.config.Webhook.BindAddress},
	} {
		if a.address == "0" {
			continue
		}
		l, err := net.Listen("tcp", a.address)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w; give another address, or 0 for none", a.flag, err))
			continue
		}
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// api is what an API server serves.
type api struct {
	version  schema.GroupVersion
	scheme   *runtime.Scheme
	policies bool
}

func discover(d discovery.DiscoveryInterface) (found api, err error) {
	if found.version, err = kube.Discover(d); err != nil {
		return found, err
	}
	if found.policies, err = kube.DiscoverPolicies(d); err != nil {
		return found, err
	}
	found.scheme, err = kube.NewScheme(found.version)
	return found, err
}

// meet finds the API server, with limits that fit 10,000 Services, and what it serves. A silent one
// may be starting; one that answers without the API will not change its mind.
func (c command) meet(ctx context.Context, log logr.Logger) (server *rest.Config, found api, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	server, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return server, found, fmt.Errorf("finding the API server: %w; give --kubeconfig, or run in a pod with a service account", err)
	}
	server.QPS, server.Burst = c.config.Client.QPS, c.config.Client.Burst
	server.UserAgent = "clusterip-operator/" + version.String()
	d, err := discovery.NewDiscoveryClientForConfig(server)
	if err != nil {
		return server, found, fmt.Errorf("making a discovery client: %w", err)
	}
	var problem error
	err = wait.PollUntilContextTimeout(ctx, 2*time.Second, startTimeout, true, func(context.Context) (bool, error) {
		if found, problem = discover(d); problem == nil || errors.Is(problem, kube.ErrNotServed) {
			return true, nil
		}
		log.Info("Waiting for the API server", "server", server.Host, "problem", problem.Error())
		return false, nil
	})
	switch {
	case ctx.Err() != nil:
		return server, found, ctx.Err()
	case err != nil:
		return server, found, fmt.Errorf("%s: %w; check that the address and the credentials are right and the server is up", server.Host, problem)
	case problem != nil:
		return server, found, fmt.Errorf("%s: %w", server.Host, problem)
	default:
		return server, found, nil
	}
}

// retryPeriod is how often the leader renews its Lease. Another replica waits this long to 2.2
// times as long between two looks (client-go's jitter), after the second in which the webhooks of a
// leader that ends still answer: with the default of two seconds none led for 5 s.
const retryPeriod = 700 * time.Millisecond

func managerOptions(c config.ManagerConfiguration, found api) manager.Options {
	o := manager.Options{
		Scheme:                  found.scheme,
		Cache:                   kube.CacheOptions(found.policies),
		HealthProbeBindAddress:  c.Health.BindAddress,
		LeaderElection:          c.LeaderElection.Enabled,
		LeaderElectionID:        leaseName,
		LeaderElectionNamespace: c.LeaderElection.Namespace,
		// The process ends with the loops and may give up the Lease: fail-over takes 3 s, not 15 s.
		LeaderElectionReleaseOnCancel: true,
		RetryPeriod:                   new(retryPeriod),
		GracefulShutdownTimeout:       new(20 * time.Second),
		Metrics:                       metricsserver.Options{BindAddress: c.Metrics.BindAddress, SecureServing: c.Metrics.Secure},
	}
	if c.Metrics.Secure {
		o.Metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return o
}
