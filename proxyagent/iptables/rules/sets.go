package rules

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// setName is the name of a set that exists always, without the part that tells the family.
type setName string

const (
	setClusterIPs setName = "CIP"      // ip,port: ClusterIPs, masqueraded when the client is no local pod
	setVIPs       setName = "VIP"      // ip: every virtual IP; the guard before the sets below
	setFirewalled setName = "LBFW"     // ip,port: load balancer IPs with source ranges
	setAllowed    setName = "LBOK"     // ip,port,net: who may use them
	setRefused    setName = "NOEP"     // ip,port: without endpoints: rejected
	setDropped    setName = "NOLOCAL"  // ip,port: endpoints elsewhere only, and the policy is Local: dropped
	setActive     setName = "ACTIVE"   // ip: ClusterIPs; a port that nothing else decided about is rejected
	setAllocated  setName = "ALLOC"    // ip: allocated addresses of the ServiceCIDRs
	setHairpin    setName = "HAIRPIN"  // ip,port,ip: endpoints that meet themselves
	setHealth     setName = "HEALTH"   // port: health check node ports
	setRefusedTCP setName = "NOEP-TCP" // port: node ports without endpoints, one set for each protocol because its members know none
	setRefusedUDP setName = "NOEP-UDP"
	setRefusedSCT setName = "NOEP-SCTP"
	setDroppedTCP setName = "NOLOCAL-TCP"
	setDroppedUDP setName = "NOLOCAL-UDP"
	setDroppedSCT setName = "NOLOCAL-SCTP"
)

// setKinds lists the sets that exist always, in the order in which members are added: whoever may pass comes before what stops the rest.
// Members are taken away in the opposite order.
var setKinds = []struct {
	name setName
	kind ipset.Type
}{
	{setAllowed, ipset.HashIPPortNet},
	{setFirewalled, ipset.HashIPPort},
	{setAllocated, ipset.HashIP},
	{setClusterIPs, ipset.HashIPPort},
	{setHairpin, ipset.HashIPPortIP},
	{setHealth, ipset.BitmapPort},
	{setRefused, ipset.HashIPPort},
	{setDropped, ipset.HashIPPort},
	{setRefusedTCP, ipset.BitmapPort},
	{setRefusedUDP, ipset.BitmapPort},
	{setRefusedSCT, ipset.BitmapPort},
	{setDroppedTCP, ipset.BitmapPort},
	{setDroppedUDP, ipset.BitmapPort},
	{setDroppedSCT, ipset.BitmapPort},
	{setActive, ipset.HashIP},
	{setVIPs, ipset.HashIP},
}

// nodePortSets are the sets for node ports without usable endpoints, by protocol.
var nodePortSets = map[model.Protocol]struct{ refused, dropped setName }{
	model.TCP:  {setRefusedTCP, setDroppedTCP},
	model.UDP:  {setRefusedUDP, setDroppedUDP},
	model.SCTP: {setRefusedSCT, setDroppedSCT},
}

// of returns the whole name of a set.
func (n setName) of(f model.Family) string { return SetPrefix(f) + string(n) }

// StaticSets are the sets of a family that exist always.
func StaticSets(f model.Family) []ipset.Set {
	var sets []ipset.Set
	for _, s := range setKinds {
		sets = append(sets, ipset.Set{Name: s.name.of(f), Type: s.kind, Family: f})
	}
	return sets
}

// affinityKind describes a set of clients. Rules say how long an entry stays; the time-out of the set itself only has to exist.
func affinityKind(f model.Family, name string) ipset.Set {
	return ipset.Set{Name: name, Type: ipset.HashIP, Family: f, Timeout: 10800}
}

// sets lists the entries that a port has in the sets.
func (r *portRules) sets(p model.ServicePort) {
	for _, vip := range p.ClusterIPs {
		at := entryAt(p, vip)
		r.add(setVIPs, ipset.Entry{Addr: vip})
		r.add(setActive, ipset.Entry{Addr: vip})
		r.add(setClusterIPs, at)
		r.addUnserved(setRefused, setDropped, at, p.HasEndpoints, len(p.Internal()) > 0)
	}
	for _, vip := range slices.Concat(p.ExternalIPs, p.LoadBalancerIPs) {
		r.add(setVIPs, ipset.Entry{Addr: vip})
		r.addUnserved(setRefused, setDropped, entryAt(p, vip), p.HasEndpoints, len(p.External()) > 0)
	}
	r.firewall(p)
	if p.NodePort != 0 {
		s := nodePortSets[p.Name.Protocol]
		r.addUnserved(s.refused, s.dropped, ipset.Entry{Port: p.NodePort}, p.HasEndpoints, len(p.External()) > 0)
	}
	if p.HealthCheckNodePort != 0 {
		r.add(setHealth, ipset.Entry{Port: p.HealthCheckNodePort})
	}
	for _, e := range p.Hairpin {
		r.add(setHairpin, ipset.Entry{Addr: e.Addr(), Protocol: p.Name.Protocol, Port: e.Port(), Source: single(e.Addr())})
	}
}

// addUnserved adds an address that has no usable endpoint to the set of those that are refused or dropped.
func (r *portRules) addUnserved(refused, dropped setName, at ipset.Entry, hasEndpoints, usable bool) {
	switch {
	case !hasEndpoints:
		r.add(refused, at)
	case !usable:
		r.add(dropped, at)
	}
}

// firewall limits load balancer IPs to the source ranges. Without endpoints all clients
// are rejected.
func (r *portRules) firewall(p model.ServicePort) {
	if len(p.SourceRanges) == 0 || !p.HasEndpoints {
		return
	}
	for _, vip := range p.LoadBalancerIPs {
		at := entryAt(p, vip)
		r.add(setFirewalled, at)
		for _, source := range p.SourceRanges {
			at.Source = source
			r.add(setAllowed, at)
		}
	}
}

func (r *portRules) add(set setName, e ipset.Entry) {
	r.members = append(r.members, member{set, e})
}

// entryAt is the port at one of its virtual IPs.
func entryAt(p model.ServicePort, vip netip.Addr) ipset.Entry {
	return ipset.Entry{Addr: vip, Protocol: p.Name.Protocol, Port: p.Port}
}
