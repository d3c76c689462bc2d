package servicecidr

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// stepsEvery is the least time between two writes of AnnotationUsage if a band's use moved by a
// step, a hundredth of its size, detailsEvery if by less. Every API server, kube-controller-manager
// and each node's proxy watch ServiceCIDRs: with 5,000 nodes a write is 5,000 messages. That a band
// is full, or not any more, is told at once, which debounce bounds.
const (
	stepsEvery   = time.Minute
	detailsEvery = 10 * time.Minute
)

// usageOf is the use of all bands, which come in pairs: static, dynamic.
func usageOf(bands []bandUse) v1alpha1.ServiceCIDRUsage {
	var out v1alpha1.ServiceCIDRUsage
	for pair := range slices.Chunk(bands, 2) {
		out.Ranges = append(out.Ranges, v1alpha1.RangeUsage{CIDR: pair[0].cidr.String(), Static: pair[0].counts(), Dynamic: pair[1].counts()})
	}
	return out
}

// Counts are those of a band, without its growth.
func Counts(u allocator.Usage) v1alpha1.BandUsage {
	capped := func(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
	return v1alpha1.BandUsage{
		Size: capped(u.Size), Allocated: capped(u.Allocated), Reserved: capped(u.Reserved), Cooling: capped(u.Cooling), Free: capped(u.Free),
	}
}

func (b bandUse) counts() v1alpha1.BandUsage {
	out := Counts(b.usage)
	if b.known {
		out.GrowthPerDay = new(rounded(b.perHour * 24))
	}
	return out
}

// rounded leaves two digits of a rate, so that it is not written for every allocation.
func rounded(rate float64) int64 {
	unit := 1.0
	for math.Abs(rate)/unit >= 100 {
		unit *= 10
	}
	return int64(math.Round(rate/unit) * unit)
}

// exhausted reports for each band whether nothing is free, which a reader should see at once.
func exhausted(u v1alpha1.ServiceCIDRUsage) (all []bool) {
	for _, r := range u.Ranges {
		all = append(all, r.Static.Free == 0, r.Dynamic.Free == 0)
	}
	return all
}

// stepped reports whether a band's use moved by a hundredth of its size, or from or to none, or
// begins or ceases to grow.
func stepped(before, now v1alpha1.ServiceCIDRUsage) bool {
	return !slices.EqualFunc(before.Ranges, now.Ranges, func(a, b v1alpha1.RangeUsage) bool {
		return a.CIDR == b.CIDR && !moved(a.Static, b.Static) && !moved(a.Dynamic, b.Dynamic)
	})
}

func moved(before, now v1alpha1.BandUsage) bool {
	stepped := func(a, b int64) bool { return max(a-b, b-a) >= max(1, now.Size/100) || (a == 0) != (b == 0) }
	grows := func(u v1alpha1.BandUsage) bool { return u.GrowthPerDay != nil && *u.GrowthPerDay > 0 }
	return before.Size != now.Size || grows(before) != grows(now) ||
		stepped(before.Allocated, now.Allocated) || stepped(before.Reserved, now.Reserved) || stepped(before.Cooling, now.Cooling)
}

// dueUsage returns the annotation if it is to be written, or how much later.
func dueUsage(have string, want v1alpha1.ServiceCIDRUsage, sinceWritten time.Duration) (text string, wait time.Duration, err error) {
	body, err := json.Marshal(want)
	if err != nil || string(body) == have {
		return "", 0, err
	}
	var before v1alpha1.ServiceCIDRUsage
	if json.Unmarshal([]byte(have), &before) != nil || !slices.Equal(exhausted(before), exhausted(want)) {
		return string(body), 0, nil
	}
	pause := detailsEvery
	if stepped(before, want) {
		pause = stepsEvery
	}
	if sinceWritten < pause {
		return "", pause - sinceWritten, nil
	}
	return string(body), 0, nil
}

// writeUsage brings AnnotationUsage up to date, or returns after how long it should.
func (r *Reconciler) writeUsage(ctx context.Context, cidr *networkingv1.ServiceCIDR, bands []bandUse) (wait time.Duration, err error) {
	if len(bands) == 0 {
		return 0, nil // the address index does not know the object yet
	}
	now := r.Clock.Now()
	text, wait, err := dueUsage(cidr.Annotations[v1alpha1.AnnotationUsage], usageOf(bands), now.Sub(r.counted[cidr.Name]))
	if text == "" {
		return wait, err
	}
	apply := networkingv1ac.ServiceCIDR(cidr.Name).WithAPIVersion(r.APIVersion).WithUID(cidr.UID).
		WithAnnotations(map[string]string{v1alpha1.AnnotationUsage: text})
	if err := r.Client.Apply(ctx, apply, client.FieldOwner(v1alpha1.ManagerServiceCIDR), client.ForceOwnership); err != nil {
		return 0, fmt.Errorf("applying the annotation %s of ServiceCIDR %s: %w", v1alpha1.AnnotationUsage, cidr.Name, err)
	}
	if r.counted == nil {
		r.counted = map[string]time.Time{}
	}
	r.counted[cidr.Name] = now
	return 0, nil
}
