package migration

import (
	"errors"
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
)

// judgeBitmaps compares the bitmaps with the Services, as the repair loop of a 1.32 API server would.
func (p *Plan) judgeBitmaps(b *addressIndex, o Options) {
	if p.Snapshot.Allocator == AllocatorIPAddresses {
		p.staleBitmaps()
		return
	}
	readable := p.readableBitmaps()
	p.absentBitmaps()
	for _, s := range readable {
		if s.Err != nil || s.Bitmap.Len() == 0 {
			p.emptyBitmap(s, b, o)
			continue
		}
		if drifted := p.judgeBits(s, b, o); drifted && o.RepairBitmap {
			p.Steps = append(p.Steps, Step{Do: RepairBitmap, Key: s.Key})
		}
	}
}

func (p *Plan) staleBitmaps() {
	for _, s := range p.Snapshot.Bitmaps {
		p.bitmapFinding(StaleBitmap, s, "", "`migrate finalize` archives and deletes it", false)
	}
}

// readableBitmaps reports those that are not what they should be, and returns the others.
func (p *Plan) readableBitmaps() (readable []StoredBitmap) {
	for _, s := range p.Snapshot.Bitmaps {
		switch {
		case errors.Is(s.Err, ErrEncrypted):
			p.bitmapFinding(BitmapEncrypted, s, s.Err.Error(), "leave out --etcd-servers to go by the Services alone", true)
			continue
		case errors.Is(s.Err, bitmap.ErrUnset):
		case s.Err != nil:
			p.bitmapFinding(BitmapUnreadable, s, s.Err.Error(), "`migrate rollback` builds it anew from the Services; leave out --etcd-servers to go by the Services alone", true)
			continue
		default:
			if kind, why := p.misplaced(s); kind != "" {
				p.bitmapFinding(kind, s, why, planForeign, true)
				continue
			}
		}
		readable = append(readable, s)
	}
	return readable
}

const planForeign = "find out which range the API server has; `migrate rollback --service-cluster-ip-range=...` builds the bitmaps for it"

// absentBitmaps reports keys that a range should have and that do not exist.
func (p *Plan) absentBitmaps() {
	if !p.Snapshot.Looked {
		return
	}
	for i := range max(1, len(p.Ranges)) { // a cluster has one at least
		key := keyOf(i)
		if p.stored(key) == nil {
			p.Findings = append(p.Findings, Finding{
				Kind: BitmapMissing, Objects: []string{key}, Detail: "range " + prefixes(p.Ranges[min(i, len(p.Ranges)):min(i+1, len(p.Ranges))]),
				Plan: "`migrate rollback` builds it; it does not matter for API servers that allocate from IPAddresses",
			})
		}
	}
}

// emptyBitmap is reported once, not as one missing bit for each address.
func (p *Plan) emptyBitmap(s StoredBitmap, b *addressIndex, o Options) {
	empty, err := s.of(p.rangeOf(s.Key))
	if err != nil {
		return // nothing tells its range
	}
	for a := range b.entries {
		if b.claimed(a) && empty.Covers(a) {
			p.bitmapFinding(BitmapEmpty, s, "", p.bitPlan(o), false)
			if o.RepairBitmap {
				p.Steps = append(p.Steps, Step{Do: RepairBitmap, Key: s.Key})
			}
			return
		}
	}
}

// judgeBits finds the bits that do not agree with the Services.
func (p *Plan) judgeBits(s StoredBitmap, b *addressIndex, o Options) (drifted bool) {
	for a := range s.Bitmap.All() {
		if !b.claimed(a) {
			p.bitFinding(LeakedBit, a, nil, o)
			drifted = true
		}
	}
	for a, e := range b.entries {
		if len(e.claims) > 0 && s.Bitmap.Covers(a) && !s.Bitmap.Contains(a) {
			p.bitFinding(MissingBit, a, e.claims, o)
			drifted = true
		}
	}
	return drifted
}

func (p *Plan) bitFinding(k Kind, a netip.Addr, claims []*Service, o Options) {
	p.add(found(k, a, entry{claims: claims}, "", p.bitPlan(o)))
}

func (p *Plan) bitPlan(o Options) string {
	if o.RepairBitmap {
		return "write the bitmap as the Services want it"
	}
	return "left as it is: nobody looks at the bitmap after the migration; `run --repair-bitmap` repairs it now"
}

func (p *Plan) bitmapFinding(k Kind, s StoredBitmap, detail, plan string, blocks bool) {
	p.Findings = append(p.Findings, Finding{
		Kind: k, Objects: []string{s.Key}, Detail: detail, Plan: plan, Blocks: blocks,
	})
}

// stored returns the bitmap under a key, nil if there is none.
func (p *Plan) stored(key string) *StoredBitmap {
	for i := range p.Snapshot.Bitmaps {
		if p.Snapshot.Bitmaps[i].Key == key {
			return &p.Snapshot.Bitmaps[i]
		}
	}
	return nil
}

// rangeOf returns the range that the bitmap under a key is to have, the zero Prefix if there is none.
func (p *Plan) rangeOf(key string) netip.Prefix {
	for i, prefix := range p.Ranges {
		if keyOf(i) == key {
			return prefix
		}
	}
	return netip.Prefix{}
}

// keyOf returns the key of the i-th range of --service-cluster-ip-range.
func keyOf(i int) string {
	if i == 0 {
		return KeyPrimary
	}
	return KeySecondary
}
