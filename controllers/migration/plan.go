package migration

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// Options change what a plan does.
type Options struct {
	// RepairBitmap makes the bitmap agree with the Services, while an API server still allocates from it.
	RepairBitmap bool
}

// Plan is what is wrong in a Snapshot, and what mends it.
type Plan struct {
	Snapshot Snapshot
	Ranges   []netip.Prefix // what the API server allocates from, primary first; nil if nothing tells
	Findings []Finding
	Steps    []Step
	// Addresses is how many ClusterIPs Services hold, OK how many of them are as they should be.
	Addresses, OK int
	// Passing is how many findings were left out because only one of two looks had them; see Sources.Confirmed.
	Passing int
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
	var out []Finding
	for _, f := range p.Findings {
		if f.Blocks {
			out = append(out, f)
		}
	}
	return out
}

// Clean reports whether nothing is wrong.
func (p *Plan) Clean() bool { return !slices.ContainsFunc(p.Findings, Finding.Counts) }

// ReadyToFlip reports whether an API server that started on this data, and allocates from IPAddresses, would find nothing to
// repair. Such a server creates the default ServiceCIDR by itself.
func (p *Plan) ReadyToFlip() bool { return len(p.StopFlip()) == 0 }

// StopFlip are the findings that such an API server would stumble over.
func (p *Plan) StopFlip() []Finding {
	var out []Finding
	for _, f := range p.Findings {
		if f.StopsFlip() && (f.Kind != DefaultServiceCIDRMissing || p.Snapshot.Served || len(p.Ranges) == 0) {
			out = append(out, f)
		}
	}
	return out
}

func (p *Plan) add(v decision) {
	if v.finding.Kind != "" {
		p.Findings = append(p.Findings, v.finding)
	}
	if v.step.Do != "" {
		p.Steps = append(p.Steps, v.step)
	}
}

// judge returns what judges single addresses in this world.
func (p *Plan) judge() judge {
	return judge{now: p.Snapshot.Now, allocator: p.Snapshot.Allocator, ranges: p.offered()}
}

// offered are all ranges that an address of a Service may lie in: the API server's own, and those of every ServiceCIDR.
//
// Where the API server's own ranges are not known, none is: an address may be in one of them.
func (p *Plan) offered() []allocator.Range {
	if len(p.Ranges) == 0 {
		return nil
	}
	var out []allocator.Range
	add := func(prefixes []netip.Prefix) {
		for _, prefix := range prefixes {
			if r, err := allocator.NewRange(prefix); err == nil && !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	add(p.Ranges)
	for _, c := range p.Snapshot.ServiceCIDRs {
		if !c.Deleting && c.Name != defaultName {
			add(c.CIDRs)
		}
	}
	return out
}

func (p *Plan) judgeObjects() {
	for _, u := range p.Snapshot.Unreadable {
		p.Findings = append(p.Findings, Finding{
			Kind: ObjectUnreadable, Objects: []string{u.Key}, Detail: u.Err.Error(),
			Plan: "repair or delete the key, then try again; nothing is done while it is there", Blocks: true,
		})
	}
	for _, s := range p.Snapshot.Services {
		p.judgeTexts(s, InvalidClusterIP, s.Invalid)
		p.judgeTexts(s, MisspeltClusterIP, s.Misspelt)
	}
}

func (p *Plan) judgeTexts(s Service, k Kind, texts []string) {
	for _, text := range texts {
		p.Findings = append(p.Findings, Finding{
			Kind: k, Objects: []string{"Service " + s.Name.String()}, Detail: text, Plan: "create the Service anew; nothing is done to it here",
		})
	}
}

// judgeAddresses goes through the addresses in their order, so that plans of one world are equal.
func (p *Plan) judgeAddresses(b *addressIndex) {
	addresses := make([]netip.Addr, 0, len(b.entries))
	for a := range b.entries {
		addresses = append(addresses, a)
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	j := p.judge()
	for _, a := range addresses {
		e := *b.entries[a]
		v, twice := j.address(a, e), j.duplicate(a, e)
		p.add(v)
		p.add(twice)
		if len(e.claims) > 0 {
			p.Addresses++
		}
		if len(e.claims) == 1 && v.finding.Kind == "" {
			p.OK++
		}
	}
}
