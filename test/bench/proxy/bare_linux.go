package proxy

import (
	"context"
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/population"
)

// tool is iptables or ip6tables of a variant.
func (b *bench) tool(variant string) string {
	if b.family == model.IPv6 {
		return "ip6tables-" + variant
	}
	return "iptables-" + variant
}

// newBare makes a stand without a proxy but with a rule for all Services, or without any if variant is empty.
func (b *bench) newBare(ctx context.Context, variant string) (*stand, error) {
	s, err := b.newStand(ctx, Contender{Name: "bare " + variant, Variant: variant}, &Figures{})
	if err != nil || variant == "" {
		return s, err
	}
	to := netip.AddrPortFrom(population.Endpoint(b.family, 0), population.OpenPort)
	command := s.bed.Node.Command(ctx, b.tool(variant), "-t", "nat", "-A", "PREROUTING", "-d", serviceRange(b.family).String(),
		"-p", "tcp", "--dport", "80", "-j", "DNAT", "--to-destination", to.String())
	command.Env = append(command.Environ(), "XTABLES_LOCKFILE="+s.bed.Node.LockFile())
	return s, command.Run()
}
