package trace

import "slices"

// merge joins possibilities that have become equal again, so that their number grows with what rules do, not with how many there are.
func merge(flows []flow) []flow {
	for {
		flows = sum(flows)
		shorter := cancel(flows)
		if len(shorter) == len(flows) {
			return flows
		}
		flows = shorter
	}
}

// place is what must be equal for two flows to be one.
type place struct {
	state
	ifs string
}

// sum adds up the shares of flows with equal states and conditions.
func sum(flows []flow) []flow {
	at := make(map[place]int, len(flows))
	var sums []flow
	for _, f := range flows {
		p := place{f.state, f.ifs.key(all)}
		i, known := at[p]
		if !known {
			at[p] = len(sums)
			sums = append(sums, f)
			continue
		}
		sums[i].share += f.share
	}
	return sums
}

// half is a flow without one of its conditions, and how it takes that one to be.
type half struct {
	place
	condition
}

// cancel joins pairs of flows that differ in nothing but one condition, which holds in one and not in the other: it does not matter.
func cancel(flows []flow) (joined []flow) {
	seen, gone := map[half]int{}, map[int]bool{}
	for i, f := range flows {
		for n, c := range f.ifs {
			h := half{place{f.state, f.ifs.key(n)}, c}
			seen[h] = i
			h.holds = !h.holds
			j, other := seen[h]
			if other && !gone[j] && sameShare(flows[j].share, f.share) {
				f.ifs = slices.Delete(slices.Clone(f.ifs), n, n+1)
				gone[i], gone[j] = true, true
				joined = append(joined, f)
				break
			}
		}
	}
	return append(joined, without(flows, gone)...)
}

func without(flows []flow, gone map[int]bool) (left []flow) {
	for i, f := range flows {
		if !gone[i] {
			left = append(left, f)
		}
	}
	return left
}

// sameShare forgives what arithmetic loses, and the steps of 2^-31 of xt_statistic.
func sameShare(a, b float64) bool { return a-b < 1e-7 && b-a < 1e-7 }
