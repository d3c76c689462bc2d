//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	v1alpha1 "github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/timeline"
	"github.com/clusterip-operator/clusterip-operator/internal/version"
	"github.com/clusterip-operator/clusterip-operator/proxyagent"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/config"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/conntrack"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/healthz"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipvs"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/metrics"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/watch"
)

// While the agent starts, the garbage collector runs rarely: no Service is served until it is done. Afterwards the heap may
// grow by half before it is collected, instead of doubling, because the state of the agent hardly changes.
const (
	gcPercentStarting = 400
	gcPercent         = 50
)

// serve builds the agent and runs it until ctx ends.
func serve(ctx context.Context, c v1alpha1.ProxyAgentConfiguration, warnings []string) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercentStarting)
	}
	log := newLogger(c.Log)
	ctx = logr.NewContext(ctx, log)
	for _, w := range warnings {
		log.Info("The configuration says something that has no meaning here", "warning", w)
	}
	guard, ctx := timeline.NewGuard(ctx)
	client, err := connect(c.Client, guard)
	if err != nil {
		return err
	}
	alone, err := lockNamespace(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = alone.Close() }()
	b, err := choose(ctx, c)
	if err != nil {
		return err
	}
	log.Info("Serving Services", "version", version.String(), "node", c.NodeName, "with", b.backend, "because", b.why)
	err = assemble(ctx, c, client, b)
	if proof := guard.Proof(); proof != nil {
		return proof // the agent was asked to end because of it
	}
	return err
}

func connect(c v1alpha1.ProxyAgentClient, guard *timeline.Guard) (*kubernetes.Clientset, error) {
	var r *rest.Config
	var err error
	if c.Kubeconfig == "" {
		r, err = rest.InClusterConfig()
	} else {
		r, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the API server (set --kubeconfig outside of a pod): %w", err)
	}
	r.QPS, r.Burst = c.QPS, c.Burst
	r.UserAgent = "clusterip-operator-proxyagent/" + version.String()
	r.Wrap(guard.Wrap)
	r.ContentType = "application/vnd.kubernetes.protobuf"
	r.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return kubernetes.NewForConfig(r)
}

// assemble connects the parts, as drawn in docs/architecture.md.
func assemble(ctx context.Context, c v1alpha1.ProxyAgentConfiguration, client *kubernetes.Clientset, b choice) error {
	log := logr.FromContextOrDiscard(ctx)
	source, err := watch.New(client, watch.Options{
		NodeName: c.NodeName, ProxyName: c.ServiceProxyName, Allocations: model.AllocationMode(c.Allocations), FollowNodes: c.FollowNodes, Logger: log,
	})
	if err != nil {
		return err
	}
	families, err := newFamilies(ctx, c, b.backend)
	if err != nil {
		return err
	}
	served := make([]model.Family, len(families))
	for i, f := range families {
		served[i] = f.Settings.Family
	}
	m := metrics.New(served...)
	m.Build(version.String(), string(b.backend), b.reason)
	m.CountInvalidDropped(func() uint64 { return invalidDropped(families) })
	m.CountConnections(connections(families))
	events := newEvents(ctx, client, c.NodeName, source.Tells)
	health := healthz.New(served, b.mode(), m.Answered)
	checks := healthz.NewServices(health.Healthy, events.healthCheckFailed)
	var localAddrs func() ([]netip.Addr, error) // no other setting needs them
	if len(c.NodePortAddresses) > 0 {
		localAddrs = conntrack.LocalAddrs
		if b.backend == balanced {
			localAddrs = ipvs.NodeAddrs
		}
	}
	agent := proxyagent.New(proxyagent.Options{
		NodeName: c.NodeName, Source: source, Families: families, Health: health, HealthChecks: checks, Events: events,
		Metrics: m, LocalAddrs: localAddrs,
		MinSyncPeriod: c.IPTables.MinSyncPeriod.Duration, ProbePeriod: c.IPTables.ProbePeriod.Duration,
	})
	events.started()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return source.Run(ctx) })
	group.Go(func() error { return health.Run(ctx, c.Health.BindAddress, events.healthFailed) })
	group.Go(func() error { return checks.Run(ctx) })
	group.Go(func() error {
		server := &http.Server{Handler: debugHandler(c, b, m, agent, health), ReadHeaderTimeout: 10 * time.Second}
		return healthz.Serve(ctx, c.Metrics.BindAddress, server, func(err error) { log.Error(err, "Serving metrics failed and will be tried again") })
	})
	group.Go(func() error { return agent.Run(ctx) })
	group.Go(func() error { return trim(ctx) })
	group.Go(func() error { return whenServed(ctx, c, families, b.backend) })
	err = group.Wait()
	log.Info("Stopping; the rules stay")
	return err
}

// newFamilies builds each family that is configured and that this machine has.
func newFamilies(ctx context.Context, c v1alpha1.ProxyAgentConfiguration, b backend) ([]proxyagent.Family, error) {
	sets, err := ipset.Open()
	if err != nil {
		return nil, fmt.Errorf("reaching the kernel's sets (the agent needs NET_ADMIN): %w", err)
	}
	liberal, generations := beLiberal(ctx, c), nfnetlink.NewGenerations()
	var families []proxyagent.Family
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		settings, served := config.Settings(c, f)
		if !served {
			continue
		}
		if err := usable(ctx, b, f); err != nil && len(c.IPFamilies) > 0 {
			return nil, fmt.Errorf("%s is asked for and this machine cannot do it: %w", f, err)
		} else if err != nil {
			logr.FromContextOrDiscard(ctx).Info("A family is not served, because this machine cannot do it", "family", f, "reason", err.Error())
			continue
		}
		settings.KeepInvalid = settings.KeepInvalid || liberal
		rules, err := b.open(iptables.Options{Family: f, Sets: sets, Generations: generations, FullCheck: c.IPTables.SyncPeriod.Duration}, c)
		if err != nil {
			return nil, err
		}
		connections, err := conntrack.Kernel()
		if err != nil {
			return nil, fmt.Errorf("reaching the kernel's connection tracking: %w", err)
		}
		counter, err := conntrack.NewCounter(f)
		if err != nil {
			return nil, fmt.Errorf("reaching the kernel's connection tracking: %w", err)
		}
		families = append(families, proxyagent.Family{Settings: settings, Backend: rules, Flows: conntrack.New(f, connections), Connections: counter})
	}
	if len(families) == 0 {
		return nil, errors.New("this machine has none of the IP families that are to be served")
	}
	return families, nil
}

// invalidDropped sums a counter of the kernel over the families.
func invalidDropped(families []proxyagent.Family) (sum uint64) {
	for _, f := range families {
		if counter, ok := f.Backend.(interface{ InvalidDropped() uint64 }); ok {
			sum += counter.InvalidDropped()
		}
	}
	return sum
}

// connections are the ways to count the connections of each family. Only IPVS does.
func connections(families []proxyagent.Family) map[model.Family]func() (map[model.ServiceName]uint64, error) {
	read := map[model.Family]func() (map[model.ServiceName]uint64, error){}
	for _, f := range families {
		if p, ok := f.Backend.(*ipvs.Proxier); ok {
			read[f.Settings.Family] = p.Connections
		}
	}
	return read
}

// hasFamily reports whether the kernel supports a family.
func hasFamily(f model.Family) bool {
	if f == model.IPv4 {
		return true
	}
	_, err := os.Stat("/proc/net/if_inet6")
	return err == nil
}

// usable returns why a family cannot be served; nil when it can. Without the test of the tables, a machine without IPv6 in its kernel would
// never become healthy. IPv4 is never left out: its failure may be temporary, and few nodes can do without it.
func usable(ctx context.Context, b backend, f model.Family) error {
	if f == model.IPv4 {
		return nil
	}
	if !hasFamily(f) {
		return errors.New("the kernel does not know IPv6")
	}
	disabled, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	if err == nil && strings.TrimSpace(string(disabled)) == "1" {
		return errors.New("net.ipv6.conf.all.disable_ipv6 is 1")
	}
	for range tableAttempts {
		if err = b.usable(ctx, f); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return err
}

// tableAttempts is how often reading the tables of IPv6 may fail before the machine counts as one without IPv6.
const tableAttempts = 5

const (
	// lockSocket is an abstract one: the kernel has one space of names for each network namespace, and frees a name with its process.
	lockSocket = "@clusterip-proxyagent"
	// handoverTimeout is how long the previous agent may take to end.
	handoverTimeout = 15 * time.Second
)

// lockNamespace waits until no other agent runs in this network namespace, and keeps others waiting until it is closed. Two agents would remove each
// other's rules for ever.
func lockNamespace(ctx context.Context) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(ctx, handoverTimeout)
	defer cancel()
	for {
		listener, err := net.Listen("unix", lockSocket)
		if err == nil {
			return listener, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("making sure that no other agent runs here: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another proxyagent runs in this network namespace: stop it first, two would take away each other's rules")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// newLogger writes to standard error, also the log of client-go.
func newLogger(l v1alpha1.Log) logr.Logger {
	c := zap.NewProductionConfig()
	c.Sampling, c.DisableStacktrace, c.DisableCaller = nil, true, true
	c.Level = zap.NewAtomicLevelAt(zapcore.Level(-min(l.Level, 127)))
	c.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	if l.Format == "text" {
		c.Encoding = "console"
	}
	z, err := c.Build()
	if err != nil {
		z = zap.NewNop() // only a sink that cannot be opened fails, and standard error can
	}
	log := zapr.NewLogger(z)
	klog.SetLogger(log)
	return log
}
