package million

import (
	"fmt"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Tables are what filling takes, and what single operations take.
func (r Result) Tables() []report.Table {
	if len(r.Sizes) == 0 {
		return nil
	}
	last := r.Sizes[len(r.Sizes)-1]
	filled := report.Table{Header: []string{"filled with"}}
	each := report.Table{Header: []string{"microseconds, with"}}
	for _, s := range r.Sizes {
		n := stats.Count(s.Services)
		filled.Header = append(filled.Header, n+" Services: s", "MiB")
		each.Header = append(each.Header, n+" Services")
	}
	filled.Header = append(filled.Header, "one more Service: bytes", "microseconds")
	each.Header = append(each.Header, "the last against the first, times")
	for i, p := range r.Parts {
		row := []string{p.String()}
		for _, s := range r.Sizes {
			row = append(row, known(s.Filled[i].Took.Seconds()), known(float64(s.Filled[i].Bytes)/(1<<20)))
		}
		bytes, micros := r.slope(i)
		filled.Add(append(row, known(bytes), known(micros))...)
	}
	for i, o := range r.Operations {
		row := []string{o.Name}
		for _, s := range r.Sizes {
			row = append(row, known(micros(s.Each[i].Seconds())))
		}
		each.Add(append(row, known(last.Each[i].Seconds()/r.Sizes[0].Each[i].Seconds()))...)
	}
	return []report.Table{filled, each}
}

// known is a number that is not zero.
func known(v float64) string {
	if v == 0 {
		return "-"
	}
	return stats.Number(v)
}

// slope is what one more Service costs a part, between the two largest sizes that have it.
func (r Result) slope(part int) (bytes, microseconds float64) {
	sizes := slices.DeleteFunc(slices.Clone(r.Sizes), func(s Size) bool { return s.Filled[part] == Filled{} })
	if len(sizes) < 2 {
		return 0, 0
	}
	a, b := sizes[len(sizes)-2], sizes[len(sizes)-1]
	more := float64(b.Services - a.Services)
	x, y := a.Filled[part], b.Filled[part]
	return float64(y.Bytes-x.Bytes) / more, micros(y.Took.Seconds()-x.Took.Seconds()) / more
}

func micros(seconds float64) float64 { return seconds * 1e6 }

// String names the part.
func (p Part) String() string {
	if p.Family == 0 {
		return p.Name + ", both families"
	}
	return fmt.Sprintf("%s, %s", p.Name, p.Family)
}

// Notes are none: nothing here has a target.
func (r Result) Notes() []string { return nil }
