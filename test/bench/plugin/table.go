package plugin

import (
	"fmt"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Tables has a row for each command.
func (r Result) Tables() []report.Table {
	table := report.Table{Header: []string{"with an address of both families for each of"}}
	for _, n := range r.Options.Sizes {
		table.Header = append(table.Header, stats.Count(n)+" Services: s, median", "MiB at the peak")
	}
	table.Header = append(table.Header, "target, s")
	for i, one := range commands {
		row := []string{one.name}
		for _, size := range r.Sizes {
			row = append(row, size.Seconds[i].String(), stats.Number(size.MiB[i].Quantile(1)))
		}
		if one.target > 0 {
			row = append(row, stats.Number(one.target))
		}
		table.Add(row...)
	}
	return []report.Table{table}
}

// Notes say which targets were reached.
func (r Result) Notes() (all []string) {
	if len(r.Sizes) == 0 {
		return nil
	}
	small, large := r.Sizes[0], r.Sizes[len(r.Sizes)-1]
	most := 0.0
	for i, one := range commands {
		if one.target > 0 {
			took := small.Seconds[i].Median()
			all = append(all, report.Target(took <= one.target, fmt.Sprintf("%s within %s s at %s Services", one.name, stats.Number(one.target), stats.Count(r.Options.Sizes[0])), stats.Number(took)))
		}
		if !one.peer {
			most = max(most, large.MiB[i].Quantile(1))
		}
	}
	for i, size := range r.Sizes {
		all = append(all, fmt.Sprintf("With %s Services etcd's database has %s MiB, and kube-apiserver occupies %s MiB. In protobuf a Service is %s bytes here, an IPAddress %s.",
			stats.Count(r.Options.Sizes[i]), stats.Number(size.Stored.Etcd/(1<<20)), stats.Number(size.Stored.APIServer/(1<<20)), stats.Number(size.Stored.Service), stats.Number(size.Stored.IPAddress)))
	}
	services := stats.Count(r.Options.Sizes[len(r.Options.Sizes)-1])
	return append(all, report.Target(most <= mostMemory, fmt.Sprintf("each command and the console stay below %d MiB at %s Services", mostMemory, services), stats.Number(most)))
}
