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

// cancel joins one pair of flows that differ in nothing but one condition, which holds in one and not in the other: it does not matter.
func cancel(flows []flow) []flow {
	type half struct {
		place
		number int
		holds  bool
	}
	seen := map[half]int{}
	for i, f := range flows {
		for n, c := range f.ifs {
			p := place{f.state, f.ifs.key(n)}
			if j, other := seen[half{p, c.number, !c.holds}]; other && sameShare(flows[j].share, f.share) {
				f.ifs = slices.Delete(slices.Clone(f.ifs), n, n+1)
				joined := slices.Clone(flows)
				joined[j] = f
				return slices.Delete(joined, i, i+1)
			}
			seen[half{p, c.number, c.holds}] = i
		}
	}
	return flows
}

// sameShare forgives what arithmetic loses, and the steps of 2^-31 of xt_statistic.
func sameShare(a, b float64) bool { return a-b < 1e-7 && b-a < 1e-7 }
