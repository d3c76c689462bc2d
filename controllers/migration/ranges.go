package migration

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// defaultName is that of the ServiceCIDR which stands for --service-cluster-ip-range.
const defaultName = v1alpha1.DefaultServiceCIDR

// serviceRanges finds out what the API server allocates from: what the admin says, else what the bitmaps are of where they are
// alive, else what the default ServiceCIDR says.
func (p *Plan) serviceRanges() []netip.Prefix {
	if p.Snapshot.Given != nil {
		return p.Snapshot.Given
	}
	if p.Snapshot.Allocator != AllocatorIPAddresses {
		if ranges := p.bitmapRanges(); ranges != nil {
			return ranges
		}
	}
	if c := p.Snapshot.defaultCIDR(); c != nil {
		return c.CIDRs
	}
	return p.bitmapRanges()
}

// bitmapRanges are those of the bitmaps, nil unless all are there, readable, and fit to the Services.
func (p *Plan) bitmapRanges() []netip.Prefix {
	if len(p.Snapshot.Bitmaps) == 0 || p.Snapshot.Bitmaps[0].Key != KeyPrimary {
		return nil
	}
	var out []netip.Prefix
	for _, b := range p.Snapshot.Bitmaps {
		if b.Bitmap == nil {
			return nil
		}
		if kind, _ := p.misplaced(b); kind != "" {
			return nil
		}
		out = append(out, b.Bitmap.Prefix())
	}
	if p.lacks(out) {
		return nil
	}
	return out
}

// lacks reports whether a Service has an address that is in none of the ranges, but in the default ServiceCIDR: then a bitmap is
// missing, and not a range.
func (p *Plan) lacks(ranges []netip.Prefix) bool {
	c := p.Snapshot.defaultCIDR()
	if c == nil {
		return false
	}
	for _, s := range p.Snapshot.Services {
		for _, a := range s.Addresses {
			if !within(ranges, a) && within(c.CIDRs, a) {
				return true
			}
		}
	}
	return false
}

func within(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
}

// misplaced says why a readable bitmap cannot be what its key says, "" if nothing speaks against it. What the admin says weighs
// most. Else Service default/kubernetes tells the primary range, of which it has the first address; and where Services have
// addresses of a family, some lie in the family's range.
func (p *Plan) misplaced(b StoredBitmap) (kind Kind, why string) {
	prefix := b.Bitmap.Prefix()
	switch first, known := p.apiServerAddress(); {
	case p.Snapshot.Given != nil && p.given(b.Key) != prefix:
		kind, why = BitmapForeignRange, fmt.Sprintf("it is of %s, --service-cluster-ip-range is %s", prefix, prefixes(p.Snapshot.Given))
		if slices.Contains(p.Snapshot.Given, prefix) {
			kind = SecondaryRangeMislabelled
		}
	case p.Snapshot.Given != nil:
	case p.swapped():
		kind, why = SecondaryRangeMislabelled, "each of the two bitmaps is under the key of the other"
	case p.sameFamily():
		kind, why = SecondaryRangeMislabelled, "both bitmaps are of the same family"
	case known && b.Key == KeyPrimary && prefix.Addr().Next() != first:
		kind, why = BitmapForeignRange, fmt.Sprintf("it is of %s, and Service default/kubernetes, which has the first address of the primary range, has %s", prefix, first)
	case p.foreign(prefix):
		kind, why = BitmapForeignRange, fmt.Sprintf("it is of %s, and none of the addresses of this family that Services hold lies in it", prefix)
	}
	return kind, why
}

// given is what the admin says that the range of a bitmap is, the zero Prefix for none.
func (p *Plan) given(key string) netip.Prefix {
	for i, prefix := range p.Snapshot.Given {
		if keyOf(i) == key {
			return prefix
		}
	}
	return netip.Prefix{}
}

// apiServerAddress is that of Service default/kubernetes in the primary family.
func (p *Plan) apiServerAddress() (netip.Addr, bool) {
	for _, s := range p.Snapshot.Services {
		if s.Name.Namespace == "default" && s.Name.Name == "kubernetes" && len(s.Addresses) > 0 {
			return s.Addresses[0], true
		}
	}
	return netip.Addr{}, false
}

// swapped reports whether the secondary bitmap is the primary one.
func (p *Plan) swapped() bool {
	secondary := p.stored(KeySecondary)
	first, known := p.apiServerAddress()
	return known && secondary != nil && secondary.Bitmap != nil && secondary.Bitmap.Prefix().Addr().Next() == first
}

func (p *Plan) sameFamily() bool {
	b := p.Snapshot.Bitmaps
	return len(b) == 2 && b[0].Bitmap != nil && b[1].Bitmap != nil && b[0].Bitmap.Prefix().Addr().Is4() == b[1].Bitmap.Prefix().Addr().Is4()
}

// foreign reports whether Services have addresses of the family, and none in the prefix.
func (p *Plan) foreign(prefix netip.Prefix) bool {
	family := false
	for _, s := range p.Snapshot.Services {
		for _, a := range s.Addresses {
			if prefix.Contains(a) {
				return false
			}
			family = family || a.Is4() == prefix.Addr().Is4()
		}
	}
	return family
}

// contradicted reports whether Service default/kubernetes has not the first address of the primary range.
func (p *Plan) contradicted(ranges []netip.Prefix) bool {
	first, known := p.apiServerAddress()
	return known && len(ranges) > 0 && ranges[0].Addr().Next() != first
}

// judgeGiven guards against a slip of the pen, by which everything else would be judged.
func (p *Plan) judgeGiven() {
	if !p.contradicted(p.Snapshot.Given) {
		return
	}
	first, _ := p.apiServerAddress()
	p.Findings = append(p.Findings, Finding{
		Kind: RangeContradicted, Objects: []string{"Service default/kubernetes"}, Blocks: true,
		Detail: fmt.Sprintf("it has %s, --service-cluster-ip-range is %s", first, prefixes(p.Snapshot.Given)),
		Plan:   "give the range as kube-apiserver is started with it, the primary one first",
	})
}

// judgeDefaultCIDR compares the default ServiceCIDR with the range. An API server that allocates from ServiceCIDRs creates and
// extends it itself.
func (p *Plan) judgeDefaultCIDR() {
	c := p.Snapshot.defaultCIDR()
	switch {
	case p.Snapshot.Allocator.WritesIPAddresses() && p.Snapshot.Given == nil:
	case c == nil:
		p.missingDefaultCIDR()
	case len(p.Ranges) > 0 && !slices.Equal(c.CIDRs, p.Ranges):
		p.wrongDefaultCIDR(*c)
	case p.Snapshot.Given == nil && p.contradicted(c.CIDRs):
		p.contradictedDefaultCIDR(*c)
	}
}

// contradictedDefaultCIDR is where nothing but the object itself tells the range, and it cannot be right.
func (p *Plan) contradictedDefaultCIDR(c ServiceCIDR) {
	first, _ := p.apiServerAddress()
	f := Finding{
		Kind: DefaultServiceCIDRWrong, Objects: []string{"ServiceCIDR " + defaultName, "Service default/kubernetes"},
		Detail: fmt.Sprintf("it is %s, and Service default/kubernetes, which has the first address of the primary range, has %s", prefixes(c.CIDRs), first),
		Plan:   "tell the range with --service-cluster-ip-range, or give --etcd-servers, where the bitmaps tell it",
	}
	if len(c.CIDRs) == 2 && c.CIDRs[1].Addr().Next() == first {
		f.Kind = SecondaryRangeMislabelled
	}
	p.Findings = append(p.Findings, f)
}

func (p *Plan) missingDefaultCIDR() {
	f := Finding{Kind: DefaultServiceCIDRMissing, Objects: []string{"ServiceCIDR " + defaultName}}
	switch {
	case len(p.Ranges) == 0:
		f.Plan = "tell the range with --service-cluster-ip-range, or give --etcd-servers, where the bitmaps tell it"
	case p.Snapshot.Served && !p.Snapshot.Allocator.WritesIPAddresses():
		f.Plan = "create it with " + prefixes(p.Ranges)
		p.Steps = append(p.Steps, Step{Do: CreateServiceCIDR, CIDRs: p.Ranges})
	default:
		f.Plan = "the API server creates it when it begins to allocate from IPAddresses"
	}
	p.Findings = append(p.Findings, f)
}

func (p *Plan) wrongDefaultCIDR(c ServiceCIDR) {
	f := Finding{
		Kind: DefaultServiceCIDRWrong, Objects: []string{"ServiceCIDR " + defaultName},
		Detail: fmt.Sprintf("it is %s, the API server has %s", prefixes(c.CIDRs), prefixes(p.Ranges)),
	}
	if reversed(c.CIDRs, p.Ranges) {
		f.Kind = SecondaryRangeMislabelled
	}
	switch {
	case p.Snapshot.Allocator.WritesIPAddresses():
		f.Plan = "start the API server with " + prefixes(c.CIDRs) + ", or move the Services and delete this ServiceCIDR, which the API server then creates anew"
	case len(c.Finalizers) > 0:
		f.Plan = "delete it, so that it can be created anew; nothing allocates from it yet. Its finalizers are left to those who set them: " + strings.Join(c.Finalizers, ", ")
	case !p.Snapshot.Served:
		f.Plan = "delete its key in etcd, or serve networking.k8s.io/v1beta1 and run again"
	default:
		f.Plan = "delete it and create it with " + prefixes(p.Ranges) + "; nothing allocates from it yet"
		p.Steps = append(p.Steps, Step{Do: ReplaceServiceCIDR, UID: c.UID, ResourceVersion: c.ResourceVersion, CIDRs: p.Ranges})
	}
	p.Findings = append(p.Findings, f)
}

func reversed(a, b []netip.Prefix) bool {
	return len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}

func prefixes(all []netip.Prefix) string {
	texts := make([]string, 0, len(all))
	for _, p := range all {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ",")
}
