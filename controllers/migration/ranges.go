package migration

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// defaultName is that of the ServiceCIDR which stands for --service-cluster-ip-range.
const defaultName = v1alpha1.DefaultServiceCIDR

// serviceRanges finds out what the API server allocates from: what the admin says, else what the
// bitmaps in use are of, else what the default ServiceCIDR says.
func (p *Plan) serviceRanges() []netip.Prefix {
	c, ranges := p.Snapshot.defaultCIDR(), p.bitmapRanges()
	switch {
	case p.Snapshot.Given != nil:
		return p.Snapshot.Given
	case c != nil && (ranges == nil || p.Snapshot.Allocator == AllocatorIPAddresses):
		return c.CIDRs
	default:
		return ranges
	}
}

// bitmapRanges are those of the bitmaps, nil unless all are there, readable, and fit the Services.
func (p *Plan) bitmapRanges() (out []netip.Prefix) {
	if len(p.Snapshot.Bitmaps) == 0 || p.Snapshot.Bitmaps[0].Key != KeyPrimary {
		return nil
	}
	for _, b := range p.Snapshot.Bitmaps {
		if b.Bitmap == nil {
			return nil
		}
		if kind, _ := p.misplaced(b); kind != "" {
			return nil
		}
		out = append(out, b.Bitmap.Prefix())
	}
	// An address outside of them, but in the default ServiceCIDR, means that a bitmap is missing.
	if c := p.Snapshot.defaultCIDR(); c != nil && p.held(func(a netip.Addr) bool { return !within(out, a) && within(c.CIDRs, a) }) {
		return nil
	}
	return out
}

func (p *Plan) held(so func(netip.Addr) bool) bool {
	return slices.ContainsFunc(p.Snapshot.Services, func(s Service) bool { return slices.ContainsFunc(s.Addresses, so) })
}

func within(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
}

// misplaced says why a readable bitmap cannot be what its key says, "" if nothing speaks against
// it. What the admin says weighs most. Else Service default/kubernetes has the first address of the
// primary range, and if Services have addresses of a family, some lie in the family's range.
func (p *Plan) misplaced(b StoredBitmap) (kind Kind, why string) {
	prefix, given := b.Bitmap.Prefix(), p.Snapshot.Given
	first, known := p.apiServerAddress()
	ofFamily := func(a netip.Addr) bool { return a.Is4() == prefix.Addr().Is4() }
	secondary := p.stored(KeySecondary)
	readable := secondary != nil && secondary.Bitmap != nil
	switch {
	case given != nil && rangeAt(given, b.Key) == prefix:
		return "", ""
	case given != nil:
		kind, why = BitmapForeignRange, fmt.Sprintf("it is of %s, --service-cluster-ip-range is %s", prefix, prefixes(given))
		if slices.Contains(given, prefix) {
			kind = SecondaryRangeMislabelled
		}
	case known && readable && begins(secondary.Bitmap.Prefix(), first):
		kind, why = SecondaryRangeMislabelled, "each of the two bitmaps is under the key of the other"
	case len(p.Snapshot.Bitmaps) == 2 && !slices.ContainsFunc(p.Snapshot.Bitmaps, func(o StoredBitmap) bool {
		return o.Bitmap == nil || !ofFamily(o.Bitmap.Prefix().Addr())
	}):
		kind, why = SecondaryRangeMislabelled, "both bitmaps are of the same family"
	case known && b.Key == KeyPrimary && !begins(prefix, first):
		kind, why = BitmapForeignRange, fmt.Sprintf("it is of %s, and Service default/kubernetes, which has the first address of the primary range, has %s", prefix, first)
	case p.held(ofFamily) && !p.held(prefix.Contains):
		kind, why = BitmapForeignRange, fmt.Sprintf("it is of %s, and none of the addresses of this family that Services hold lies in it", prefix)
	}
	return kind, why
}

// begins reports whether an address is the first of a range, which Service default/kubernetes has.
func begins(p netip.Prefix, first netip.Addr) bool { return p.Addr().Next() == first }

// apiServerAddress is that of Service default/kubernetes in the primary family.
func (p *Plan) apiServerAddress() (netip.Addr, bool) {
	for _, s := range p.Snapshot.Services {
		if s.Name.Namespace == "default" && s.Name.Name == "kubernetes" && len(s.Addresses) > 0 {
			return s.Addresses[0], true
		}
	}
	return netip.Addr{}, false
}

func (p *Plan) contradicted(ranges []netip.Prefix) bool {
	first, known := p.apiServerAddress()
	return known && len(ranges) > 0 && !begins(ranges[0], first)
}

// judgeGiven guards against a wrong --service-cluster-ip-range, by which all else would be judged.
func (p *Plan) judgeGiven() {
	first, _ := p.apiServerAddress()
	if p.contradicted(p.Snapshot.Given) {
		p.block(RangeContradicted, fmt.Sprintf("it has %s, --service-cluster-ip-range is %s", first, prefixes(p.Snapshot.Given)),
			"give the range as kube-apiserver is started with it, the primary one first", "Service default/kubernetes")
	}
}

const tellRange = "tell the range with --service-cluster-ip-range, or give --etcd-servers, where the bitmaps tell it"

// judgeDefaultCIDR compares it with the range. API servers on ServiceCIDRs create and extend it.
func (p *Plan) judgeDefaultCIDR() {
	c := p.Snapshot.defaultCIDR()
	switch {
	case p.Snapshot.Allocator.WritesIPAddresses() && p.Snapshot.Given == nil:
	case c == nil:
		p.missingDefaultCIDR()
	case len(p.Ranges) > 0 && !slices.Equal(c.CIDRs, p.Ranges):
		p.wrongDefaultCIDR(*c)
	case p.Snapshot.Given == nil && p.contradicted(c.CIDRs): // nothing but the object itself tells the range, and it cannot be right
		kind := DefaultServiceCIDRWrong
		first, _ := p.apiServerAddress()
		if len(c.CIDRs) == 2 && begins(c.CIDRs[1], first) {
			kind = SecondaryRangeMislabelled
		}
		p.find(kind, fmt.Sprintf("it is %s, and Service default/kubernetes, which has the first address of the primary range, has %s",
			prefixes(c.CIDRs), first), tellRange, "ServiceCIDR "+defaultName, "Service default/kubernetes")
	}
}

func (p *Plan) missingDefaultCIDR() {
	plan := "the API server creates it when it begins to allocate from IPAddresses"
	switch {
	case len(p.Ranges) == 0:
		plan = tellRange
	case p.Snapshot.Served && !p.Snapshot.Allocator.WritesIPAddresses():
		plan = "create it with " + prefixes(p.Ranges)
		p.Steps = append(p.Steps, Step{Do: CreateServiceCIDR, CIDRs: p.Ranges})
	}
	p.find(DefaultServiceCIDRMissing, "", plan, "ServiceCIDR "+defaultName)
}

func (p *Plan) wrongDefaultCIDR(c ServiceCIDR) {
	kind, plan := DefaultServiceCIDRWrong, ""
	if len(c.CIDRs) == 2 && len(p.Ranges) == 2 && c.CIDRs[0] == p.Ranges[1] && c.CIDRs[1] == p.Ranges[0] {
		kind = SecondaryRangeMislabelled
	}
	switch {
	case p.Snapshot.Allocator.WritesIPAddresses():
		plan = "start the API server with " + prefixes(c.CIDRs) + ", or move the Services and delete this ServiceCIDR, which the API server then creates anew"
	case len(c.Finalizers) > 0:
		plan = "delete it, so that it can be created anew; nothing allocates from it yet. Its finalizers are left to those who set them: " + strings.Join(c.Finalizers, ", ")
	case !p.Snapshot.Served:
		plan = "delete its key in etcd, or serve networking.k8s.io/v1beta1 and run again"
	default:
		plan = "delete it and create it with " + prefixes(p.Ranges) + "; nothing allocates from it yet"
		p.Steps = append(p.Steps, Step{Do: ReplaceServiceCIDR, UID: c.UID, ResourceVersion: c.ResourceVersion, CIDRs: p.Ranges})
	}
	p.find(kind, fmt.Sprintf("it is %s, the API server has %s", prefixes(c.CIDRs), prefixes(p.Ranges)), plan, "ServiceCIDR "+defaultName)
}

func prefixes(all []netip.Prefix) string {
	texts := make([]string, 0, len(all))
	for _, p := range all {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ",")
}

// judgeBitmaps compares the bitmaps with the Services, like the repair loop of a 1.32 API server.
func (p *Plan) judgeBitmaps(h *holders, o Options) {
	if p.Snapshot.Allocator == AllocatorIPAddresses {
		for _, s := range p.Snapshot.Bitmaps {
			p.find(StaleBitmap, "", "`migrate finalize` archives and deletes it", s.Key)
		}
		return
	}
	for i, key := range bitmapKeys[:max(1, min(len(p.Ranges), 2))] { // a cluster has one at least
		if p.Snapshot.Revision > 0 && p.stored(key) == nil {
			p.find(BitmapMissing, "range "+prefixes(p.Ranges[min(i, len(p.Ranges)):min(i+1, len(p.Ranges))]),
				"`migrate rollback` builds it; it does not matter for API servers that allocate from IPAddresses", key)
		}
	}
	plan := "left as it is: no API server looks at the bitmap after the migration; `run --repair-bitmap` repairs it now"
	switch {
	case o.RepairBitmap:
		plan = "write the bitmap as the Services want it"
	case p.Snapshot.Allocator == AllocatorBoth:
		plan = "API servers that keep bitmap and IPAddresses refuse Services because of it, and never mend it; `run --repair-bitmap` does"
	}
	for _, s := range p.Snapshot.Bitmaps {
		if p.readable(s) && p.drifted(s, h, plan) && o.RepairBitmap {
			p.Steps = append(p.Steps, Step{Do: RepairBitmap, Key: s.Key})
		}
	}
}

func (p *Plan) readable(s StoredBitmap) bool {
	switch {
	case errors.Is(s.Err, ErrEncrypted):
		p.block(BitmapEncrypted, s.Err.Error(), "leave out --etcd-servers to go by the Services alone", s.Key)
		return false
	case errors.Is(s.Err, bitmap.ErrUnset):
		return true
	case s.Err != nil:
		p.block(BitmapUnreadable, s.Err.Error(),
			"`migrate rollback` builds it anew from the Services; leave out --etcd-servers to go by the Services alone", s.Key)
		return false
	}
	kind, why := p.misplaced(s)
	if kind != "" {
		p.block(kind, why, "find out which range the API server has; `migrate rollback --service-cluster-ip-range=...` builds the bitmaps for it", s.Key)
	}
	return kind == ""
}

// drifted reports bits that disagree with Services. An empty bitmap is one finding, not one a bit.
func (p *Plan) drifted(s StoredBitmap, h *holders, plan string) bool {
	m, err := s.of(rangeAt(p.Ranges, s.Key))
	if err != nil {
		return false // nothing tells its range
	}
	missing, leaked := h.drift(m)
	switch {
	case m.Len() == 0 && len(missing) > 0:
		p.find(BitmapEmpty, "", plan, s.Key)
	case m.Len() > 0:
		for a := range leaked {
			p.add(found(LeakedBit, a, entry{}, "", plan))
		}
		for a := range missing {
			p.add(found(MissingBit, a, entry{claims: h.entries[a].claims}, "", plan))
		}
	}
	return len(missing)+len(leaked) > 0
}

func (p *Plan) stored(key string) *StoredBitmap {
	if i := slices.IndexFunc(p.Snapshot.Bitmaps, func(s StoredBitmap) bool { return s.Key == key }); i >= 0 {
		return &p.Snapshot.Bitmaps[i]
	}
	return nil
}

// rangeAt returns the range of the bitmap under a key, the zero Prefix if there is none.
func rangeAt(ranges []netip.Prefix, key string) (none netip.Prefix) {
	if i := slices.Index(bitmapKeys, key); i < len(ranges) {
		return ranges[i]
	}
	return none
}
