package rules

import (
	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// setName is the name of a set that exists always, without the part that tells the family.
type setName string

const (
	setClusterIPs setName = "CIP"     // ip,port: ClusterIPs, masqueraded but for local pods
	setVIPs       setName = "VIP"     // ip: every virtual IP; the guard before the sets below
	setFirewalled setName = "LBFW"    // ip,port: load balancer IPs with source ranges
	setAllowed    setName = "LBOK"    // ip,port,net: the clients that may use them
	setRefused    setName = "NOEP"    // ip,port: without endpoints: rejected
	setDropped    setName = "NOLOCAL" // ip,port: policy Local, endpoints elsewhere only: dropped
	setActive     setName = "ACTIVE"  // ip: ClusterIPs; what nothing else decides about is rejected
	setAllocated  setName = "ALLOC"   // ip: allocated addresses of the ServiceCIDRs
	setHairpin    setName = "HAIRPIN" // ip,port,ip: endpoints that meet themselves
	setHealth     setName = "HEALTH"  // port: health check node ports
)

// setKinds lists the sets that exist always. Members are added in this order, so that clients that
// may pass come before what stops the rest, and are taken away in the opposite order.
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
	{setRefused.ofNodePorts(model.TCP), ipset.BitmapPort},
	{setRefused.ofNodePorts(model.UDP), ipset.BitmapPort},
	{setRefused.ofNodePorts(model.SCTP), ipset.BitmapPort},
	{setDropped.ofNodePorts(model.TCP), ipset.BitmapPort},
	{setDropped.ofNodePorts(model.UDP), ipset.BitmapPort},
	{setDropped.ofNodePorts(model.SCTP), ipset.BitmapPort},
	{setActive, ipset.HashIP},
	{setVIPs, ipset.HashIP},
}

// ofNodePorts is the same set for node ports: one for each protocol, because its members know none.
func (n setName) ofNodePorts(p model.Protocol) setName { return n + "-" + setName(p.String()) }

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

// affinityKind describes a set of clients. Rules set each time-out; the set's only has to exist.
func affinityKind(f model.Family, name string) ipset.Set {
	return ipset.Set{Name: name, Type: ipset.HashIP, Family: f, Timeout: 10800}
}

// sets adds the entries that a front has in the sets.
func (r *portRules) sets(protocol model.Protocol, f model.Front) {
	at, refused, dropped := ipset.Entry{Port: f.At.Port()}, setRefused.ofNodePorts(protocol), setDropped.ofNodePorts(protocol)
	if !f.IsNodePort() {
		at.Addr, at.Protocol, refused, dropped = f.At.Addr(), protocol, setRefused, setDropped
		r.add(setVIPs, ipset.Entry{Addr: at.Addr})
		if !f.Outside {
			r.add(setActive, ipset.Entry{Addr: at.Addr})
			r.add(setClusterIPs, at)
		}
	}
	switch f.Fate {
	case model.Refuse:
		r.add(refused, at)
	case model.Drop:
		r.add(dropped, at)
	}
	if len(f.Sources) > 0 {
		r.add(setFirewalled, at)
	}
	for _, source := range f.Sources {
		at.Source = source
		r.add(setAllowed, at)
	}
}

func (r *portRules) add(set setName, e ipset.Entry) { r.members = append(r.members, member{set, e}) }
