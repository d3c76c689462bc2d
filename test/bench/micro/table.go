package micro

import (
	"slices"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Ours is how our implementation calls itself.
const Ours = "ours"

const (
	time   = "ns/op"
	allocs = "allocs/op"
	memory = "B/addr"
)

// Times has a row for each case: the time of each implementation, ours first, our allocations, and how many times
// as long the others take.
func (o *Output) Times() report.Table {
	others := slices.DeleteFunc(slices.Clone(o.Impls), func(impl string) bool { return impl == Ours })
	table := report.Table{Header: []string{"case", "ours, ns", "ours, allocations"}}
	for _, impl := range others {
		table.Header = append(table.Header, impl+", ns", impl+" : ours")
	}
	for _, of := range o.Cases {
		ours := o.Sample(Ours, of, time)
		row := []string{of, ours.String(), stats.Number(o.Sample(Ours, of, allocs).Median())}
		for _, impl := range others {
			theirs := o.Sample(impl, of, time)
			row = append(row, theirs.String(), stats.Number(theirs.Median()/ours.Median()))
		}
		table.Add(row...)
	}
	return table
}

// Memory has a row for each case of a benchmark that reports bytes for each used address.
func (o *Output) Memory() report.Table {
	table := report.Table{Header: []string{"case", "bytes for a used address"}}
	for _, of := range o.Cases {
		table.Add(of, o.Sample("", of, memory).String())
	}
	return table
}
