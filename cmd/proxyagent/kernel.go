//go:build linux

package main

import (
	"context"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-logr/logr"

	v1alpha1 "github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent"
	agentbackend "github.com/clusterip-operator/clusterip-operator/proxyagent/backend"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/config"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/sysctl"
)

// beLiberal reports whether the kernel accepts packets outside the TCP window: we then keep them.
func beLiberal(ctx context.Context, c v1alpha1.ProxyAgentConfiguration) bool {
	liberal, err := sysctl.Kernel(c.SysctlRoot).BeLiberal()
	if err != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("Cannot read whether connection tracking is liberal", "reason", err.Error())
	}
	return liberal
}

// whenServed does what has to wait for the first rules.
func whenServed(ctx context.Context, c v1alpha1.ProxyAgentConfiguration, families []proxyagent.Family, b backend) error {
	waitServed(ctx, families[0].Backend)
	if ctx.Err() != nil {
		return nil
	}
	applySysctls(ctx, c)
	// The first list is garbage by now, several times what is in use.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	debug.FreeOSMemory()
	for _, f := range families {
		waitServed(ctx, f.Backend)
		cleanOthers(ctx, f.Settings.Family, b)
	}
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		if _, served := config.Settings(c, f); !served && hasFamily(f) {
			cleanOthers(ctx, f, none)
		}
	}
	return nil
}

// applySysctls writes kernel settings. Those of connection tracking exist only with the first
// rules, and route_localnet is safe only with the rule that keeps neighbours off loopback
// addresses. Failures are logged: a container without privileges may not write, but serves.
func applySysctls(ctx context.Context, c v1alpha1.ProxyAgentConfiguration) {
	err := sysctl.Kernel(c.SysctlRoot).Apply(sysctl.Want{
		MaxPerCore: c.Conntrack.MaxPerCore, Min: c.Conntrack.Min,
		TCPEstablished: c.Conntrack.TCPEstablishedTimeout.Duration, TCPCloseWait: c.Conntrack.TCPCloseWaitTimeout.Duration,
		UDP: c.Conntrack.UDPTimeout.Duration, UDPStream: c.Conntrack.UDPStreamTimeout.Duration,
		BeLiberal: c.Conntrack.TCPBeLiberal, RouteLocalnet: atLoopback(c),
	})
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info("Some settings of the kernel could not be written", "reason", err.Error())
	}
}

// prepareIPVS writes what IPVS does not serve without.
func prepareIPVS(c v1alpha1.ProxyAgentConfiguration) error {
	return sysctl.Kernel(c.SysctlRoot).Apply(sysctl.Want{IPVS: true, StrictARP: c.IPVS.StrictARP})
}

const (
	trimLook   = 15 * time.Second // how often to look for memory that is not used
	trimPeriod = time.Minute      // how often to give it back at most: that takes a collection
	trimWorth  = 32 << 20         // bytes
)

// trim returns memory after large syncs and comparisons: the next one may be an hour away.
func trim(ctx context.Context) error {
	look := time.NewTicker(trimLook)
	defer look.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if m.HeapIdle-m.HeapReleased > trimWorth && time.Since(last) > trimPeriod {
			debug.FreeOSMemory()
			last = time.Now()
		}
	}
}

// waitServed waits until the first rules are written.
func waitServed(ctx context.Context, b agentbackend.Backend) {
	for ctx.Err() == nil {
		if total, _ := b.Counts(); len(total) > 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// atLoopback reports whether any of 127.0.0.0/8 is to serve node ports, which takes route_localnet.
func atLoopback(c v1alpha1.ProxyAgentConfiguration) bool {
	settings, served := config.Settings(c, model.IPv4)
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	restricted := settings.NodePortPrimary || len(settings.NodePortCIDRs) > 0
	excluded := c.Mode == string(balanced) || restricted && !slices.ContainsFunc(settings.NodePortCIDRs, loopback.Overlaps)
	return served && settings.LocalhostNodePorts && !excluded
}
