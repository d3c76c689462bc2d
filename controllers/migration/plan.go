package migration

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// Options change what a plan does.
type Options struct {
	RepairBitmap bool // makes the bitmap agree with the Services, while an API server still allocates from it
}

// Plan is what is wrong in a Snapshot, and what mends it.
type Plan struct {
	Snapshot Snapshot
	Ranges   []netip.Prefix // what the API server allocates from, primary first; nil if nothing tells
	Findings []Finding
	Steps    []Step
	// Addresses is how many ClusterIPs Services hold, OK how many of them are as they should be.
	Addresses, OK int
	Passing       int // how many findings were left out because only one of two looks had them; see Sources.Confirmed
}

// NewPlan compares bitmaps, Services, IPAddresses and ServiceCIDRs. It is pure, and the same Snapshot gives the same Plan.
func NewPlan(w Snapshot, o Options) Plan {
	p := Plan{Snapshot: w}
	p.Ranges = p.serviceRanges()
	b := newAddressIndex(w)
	p.judgeObjects()
	p.judgeGiven()
	p.judgeBitmaps(b, o)
	p.judgeDefaultCIDR()
	p.judgeAddresses(b)
	explain(p.Findings)
	return p
}

// Blocked are the findings because of which nothing may be written.
func (p *Plan) Blocked() []Finding {
	return slices.DeleteFunc(slices.Clone(p.Findings), func(f Finding) bool { return !f.Blocks })
}

// Clean reports whether nothing is wrong.
func (p *Plan) Clean() bool { return !slices.ContainsFunc(p.Findings, Finding.Counts) }

// ReadyToFlip reports whether an API server that started on this data, and allocates from IPAddresses, would find nothing to
// repair. Such a server creates the default ServiceCIDR by itself.
func (p *Plan) ReadyToFlip() bool { return len(p.StopFlip()) == 0 }

// StopFlip are the findings that such an API server would stumble over.
func (p *Plan) StopFlip() []Finding {
	return slices.DeleteFunc(slices.Clone(p.Findings), func(f Finding) bool {
		return !f.StopsFlip() || f.Kind == DefaultServiceCIDRMissing && !p.Snapshot.Served && len(p.Ranges) > 0
	})
}

func (p *Plan) find(k Kind, detail, plan string, objects ...string) {
	p.Findings = append(p.Findings, Finding{Kind: k, Objects: objects, Detail: detail, Plan: plan})
}

func (p *Plan) block(k Kind, detail, plan string, objects ...string) {
	p.Findings = append(p.Findings, Finding{Kind: k, Objects: objects, Detail: detail, Plan: plan, Blocks: true})
}

func (p *Plan) add(v decision) {
	if v.finding.Kind != "" {
		p.Findings = append(p.Findings, v.finding)
	}
	if v.step.Do != "" {
		p.Steps = append(p.Steps, v.step)
	}
}

// judge returns what judges single addresses in this cluster. An address of a Service may lie in the API server's own ranges and in
// those of every ServiceCIDR. Where the API server's own ranges are not known, none is: an address may be in one of them.
func (p *Plan) judge() judge {
	j := judge{now: p.Snapshot.Now, allocator: p.Snapshot.Allocator}
	if len(p.Ranges) == 0 {
		return j
	}
	all := slices.Clone(p.Ranges)
	for _, c := range p.Snapshot.ServiceCIDRs {
		if !c.Deleting && c.Name != defaultName {
			all = append(all, c.CIDRs...)
		}
	}
	for _, prefix := range all {
		if r, err := allocator.NewRange(prefix); err == nil {
			j.ranges = append(j.ranges, r)
		}
	}
	return j
}

func (p *Plan) judgeObjects() {
	for _, u := range p.Snapshot.Unreadable {
		p.block(ObjectUnreadable, u.Err.Error(), "repair or delete the key, then try again; nothing is done while it is there", u.Key)
	}
	const anew = "create the Service anew; nothing is done to it here"
	for _, s := range p.Snapshot.Services {
		for _, text := range s.Invalid {
			p.find(InvalidClusterIP, text, anew, "Service "+s.Name.String())
		}
		for _, text := range s.Misspelt {
			p.find(MisspeltClusterIP, text, anew, "Service "+s.Name.String())
		}
	}
}

// judgeAddresses goes through the addresses in their order, so that plans of one cluster are equal.
func (p *Plan) judgeAddresses(b *addressIndex) {
	j := p.judge()
	for _, a := range slices.SortedFunc(maps.Keys(b.entries), netip.Addr.Compare) {
		e := b.entries[a]
		v := j.address(a, e)
		p.add(v)
		p.add(j.duplicate(a, e))
		if len(e.claims) > 0 {
			p.Addresses++
		}
		if len(e.claims) == 1 && v.finding.Kind == "" {
			p.OK++
		}
	}
}
