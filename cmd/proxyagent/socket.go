//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	v1alpha1 "github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/conntrack"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/metrics"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/socketlb"
)

// socket is what translates connections at connect(), if that is asked for and possible.
type socket struct {
	translator *socketlb.Translator // nil if it is not
	why        socketlb.Status      // the status without a translator; the zero one if it is off
	backends   map[model.Family]*socketlb.Backend
}

// newSocket decorates the backends of families. Where the kernel lacks what that takes it says so,
// and leaves them as they are: rules serve.
func newSocket(ctx context.Context, c v1alpha1.ProxyAgentConfiguration, families []proxyagent.Family) socket {
	scope := socketlb.Scope(c.SocketLB.Scope)
	if scope == socketlb.Off {
		return socket{}
	}
	t, err := socketlb.Open(socketlb.Options{Scope: scope, CgroupRoot: c.SocketLB.CgroupRoot, LocalAddrs: conntrack.LocalAddrs})
	if err != nil {
		s := socket{why: socketlb.Unavailable(scope, err)}
		logr.FromContextOrDiscard(ctx).Info("Connections cannot be translated at connect(), and rules serve all", "scope", scope, "reason", s.why.Reason, "detail", s.why.Detail)
		return s
	}
	s := socket{translator: t, backends: map[model.Family]*socketlb.Backend{}}
	for i, f := range families {
		b := t.Backend(f.Settings.Family, f.Backend)
		families[i].Backend, s.backends[f.Settings.Family] = b, b
	}
	return s
}

// run keeps the programs where they belong until ctx ends.
func (s socket) run(ctx context.Context, period time.Duration) {
	if s.translator != nil {
		s.translator.Run(ctx, period)
	}
}

func (s socket) status() socketlb.Status {
	if s.translator == nil {
		return s.why
	}
	return s.translator.Status()
}

// overview is a line for dump, empty if no connections are to be translated.
func (s socket) overview() string {
	switch status := s.status(); {
	case status.Scope == "":
		return ""
	case status.Active():
		return fmt.Sprintf("TCP connections to ClusterIPs are translated at connect(), scope %s: %s.\n", status.Scope, status.Detail)
	default:
		return fmt.Sprintf("No connections are translated at connect(), although scope %s is configured: %s. Rules serve all.\n", status.Scope, status.Detail)
	}
}

// measure adds metrics, unless no connections are to be translated.
func (s socket) measure(m *metrics.Metrics) {
	scope := s.status().Scope
	if scope == "" {
		return
	}
	reasons := make([]string, len(socketlb.Reasons))
	for i, r := range socketlb.Reasons {
		reasons[i] = string(r)
	}
	taken, maps := metrics.Connections{}, map[model.Family]metrics.OfSocketLB{}
	for f, b := range s.backends {
		taken[f] = func() (map[model.ServiceName]uint64, error) { return b.Taken(), nil }
		maps[f] = metrics.OfSocketLB{Left: b.Left, Took: b.Took}
	}
	m.SocketLB(string(scope), reasons, func() string { return string(s.status().Reason) }, maps)
	m.CountTranslated(taken)
}
