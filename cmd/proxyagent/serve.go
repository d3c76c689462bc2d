//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
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

// While the agent starts, garbage is collected rarely: no Service is served until then. Afterwards
// the heap may grow by half, not double, before a collection: the agent's state hardly changes.
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
		log.Info("Not all of the configuration is as it should be", "warning", w)
	}
	guard, ctx := timeline.NewGuard(ctx)
	client, err := connect(c.Client, guard)
	if err != nil {
		return err
	}
	alone, err := lockNamespace(ctx, lockFolder)
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
	socket := newSocket(ctx, c, families)
	served := make([]model.Family, len(families))
	for i, f := range families {
		served[i] = f.Settings.Family
	}
	m := metrics.New(served...)
	m.Build(version.String(), string(b.backend), b.reason)
	m.CountInvalidDropped(func() uint64 { return invalidDropped(families) })
	m.CountConnections(connections(families))
	socket.measure(m)
	events := newEvents(ctx, client, c.NodeName, source.Tells)
	health := healthz.New(served, b.mode(), m.Answered)
	checks := healthz.NewServices(health.Healthy, events.healthCheckFailed)
	agent := proxyagent.New(proxyagent.Options{
		NodeName: c.NodeName, Source: source, Families: families, Health: health, HealthChecks: checks, Events: events,
		Metrics: m, LocalAddrs: localAddrs(c, b.backend),
		MinSyncPeriod: c.MinSyncPeriod.Duration, ProbePeriod: c.ProbePeriod.Duration,
	})
	events.started()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return source.Run(ctx) })
	group.Go(func() error { return tellSilence(ctx, source.Ready(), client.CoreV1().RESTClient().Get().URL().Host) })
	group.Go(func() error { return health.Run(ctx, c.Health.BindAddress, events.healthFailed) })
	group.Go(func() error { return checks.Run(ctx) })
	group.Go(func() error {
		server := &http.Server{Handler: debugHandler(c, b, socket, m, agent, health), ReadHeaderTimeout: 10 * time.Second}
		return healthz.Serve(ctx, c.Metrics.BindAddress, server, func(err error) { log.Error(err, "Serving metrics failed and will be tried again") })
	})
	group.Go(func() error { return agent.Run(ctx) })
	group.Go(func() error { socket.run(ctx, c.ProbePeriod.Duration); return nil })
	group.Go(func() error { return trim(ctx) })
	group.Go(func() error { return whenServed(ctx, c, families, b.backend) })
	err = group.Wait()
	log.Info("Stopping; the rules stay")
	return err
}

// localAddrs returns what lists the node's addresses. No other setting than nodePortAddresses needs
// them.
func localAddrs(c v1alpha1.ProxyAgentConfiguration, b backend) func() ([]netip.Addr, error) {
	switch {
	case len(c.NodePortAddresses) == 0:
		return nil
	case b == balanced:
		return ipvs.NodeAddrs
	default:
		return conntrack.LocalAddrs
	}
}

// silence is how often an API server that listed nothing is reported, among client-go's own errors.
const silence = 15 * time.Second

// tellSilence says what may be wrong until the API server has listed everything. The usual reason
// is one that no error of a connection names.
func tellSilence(ctx context.Context, listed <-chan struct{}, address string) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-listed:
			return nil
		case <-time.After(silence):
			logr.FromContextOrDiscard(ctx).Info("The API server has not listed Services yet; if its address is the ClusterIP of the Service kubernetes, which after a reboot works only "+
				"once this agent serves it, name another address in KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, or a kubeconfig", "address", address)
		}
	}
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
		if why := missing(f); why != "" && len(c.IPFamilies) > 0 {
			return nil, fmt.Errorf("%s is configured and this machine does not have it: %s", f, why)
		} else if why != "" {
			logr.FromContextOrDiscard(ctx).Info("A family is not served, because this machine does not have it", "family", f, "reason", why)
			continue
		}
		settings.KeepInvalid = settings.KeepInvalid || liberal
		rules, err := b.open(iptables.Options{Family: f, Sets: sets, Generations: generations, FullCheck: c.SyncPeriod.Duration}, c)
		if err != nil {
			return nil, fmt.Errorf("preparing %s (ipFamilies in the configuration can leave it out): %w", f, err)
		}
		connections, err := conntrack.Open()
		if err != nil {
			return nil, fmt.Errorf("reaching the kernel's connection tracking: %w", err)
		}
		counter, err := conntrack.Open() // its own, so that deleting flows does not wait for the count
		if err != nil {
			return nil, fmt.Errorf("reaching the kernel's connection tracking: %w", err)
		}
		families = append(families, proxyagent.Family{Settings: settings, Backend: rules, Flows: conntrack.New(f, connections), Connections: counter, Optional: f == model.IPv6 && len(c.IPFamilies) == 0})
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
func connections(families []proxyagent.Family) metrics.Connections {
	read := metrics.Connections{}
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

// missing returns why this machine lacks a family, empty if it has it. The agent's loop retries
// what fails when rules are written: a module that is loaded later must not need a restart.
func missing(f model.Family) string {
	if !hasFamily(f) {
		return "the kernel does not know IPv6"
	}
	disabled, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	if f == model.IPv6 && err == nil && strings.TrimSpace(string(disabled)) == "1" {
		return "net.ipv6.conf.all.disable_ipv6 is 1"
	}
	return ""
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
