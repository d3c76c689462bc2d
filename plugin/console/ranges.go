package console

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/inspect"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// allocations are all addresses in use at a moment. Curves end there, and so stay until the next.
type allocations struct {
	all []view.Allocation
	at  time.Time
}

// row is a row of the ranges.
type row struct {
	inspect.Range
	// Troubles are the conditions that `check` reports. Migrated tells how far a migration is.
	Troubles []metav1.Condition `json:"troubles"`
	Migrated *metav1.Condition  `json:"migrated,omitempty"`
}

func (d *data) ranges(ctx context.Context, _ url.Values) (any, error) {
	cidrs, policies, err := d.session.RangesAndPolicies(ctx)
	if err != nil {
		return nil, err
	}
	all := []row{}
	for i := range cidrs.Items {
		o := &cidrs.Items[i]
		told, _ := inspect.ToldUsage(o)
		wrong := append([]metav1.Condition{}, check.RangeFaults(o.Status.Conditions)...) // never nil: the page expects a list
		for j, u := range inspect.CountedUsage(o, d.view).Ranges {
			if j < len(told.Ranges) { // the view counts now, only the operator knows growth
				u.Static.GrowthPerDay, u.Dynamic.GrowthPerDay = told.Ranges[j].Static.GrowthPerDay, told.Ranges[j].Dynamic.GrowthPerDay
			}
			all = append(all, row{inspect.NewRange(o, u, policies.Items), wrong, meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionMigrated)})
		}
	}
	slices.SortStableFunc(all, func(a, b row) int { return inspect.BySoonestFull(a.Range, b.Range) })
	return all, nil
}

// curve is the use of one range until now. It is asked for the range that is looked at alone.
type curve struct {
	CIDR string `json:"cidr"`
	// Points are times in seconds, and how many of the addresses in use now were taken by then.
	Points [][2]int64 `json:"points"`
}

func (d *data) history(_ context.Context, query url.Values) (any, error) {
	cidr, err := netip.ParsePrefix(query.Get("cidr"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	known, err := d.allocations()
	return curve{cidr.String(), history(known.all, cidr.Masked(), known.at)}, err
}

// historyPoints is how many points of a curve are drawn.
const historyPoints = 100

// history counts a range's allocations that existed at equal steps from the first one until now.
func history(sorted []view.Allocation, p netip.Prefix, now time.Time) [][2]int64 {
	out := [][2]int64{}
	from, _ := slices.BinarySearchFunc(sorted, p.Addr(), func(a view.Allocation, b netip.Addr) int { return a.Address.Compare(b) })
	var times []int64
	for ; from < len(sorted) && p.Contains(sorted[from].Address); from++ {
		times = append(times, sorted[from].Since.Unix())
	}
	if len(times) == 0 {
		return out
	}
	slices.Sort(times)
	first, last := times[0], max(now.Unix(), times[len(times)-1])
	for i := range int64(historyPoints) {
		t := first + (last-first)*i/(historyPoints-1)
		n, _ := slices.BinarySearch(times, t+1)
		if len(out) > 0 && out[len(out)-1][0] == t {
			out = out[:len(out)-1]
		}
		out = append(out, [2]int64{t, int64(n)})
	}
	return out
}
