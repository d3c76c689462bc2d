package renumber

import (
	"fmt"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Tables are the rates, and the agents.
func (r Result) Tables() []report.Table {
	rates := report.Table{Header: []string{stats.Count(r.Options.Services) + " Services", "moved, /s", "old addresses given up, /s"}}
	for i, workers := range r.Options.Workers {
		rates.Add(fmt.Sprintf("--workers=%d", workers), r.Moved[i].String(), r.GivenUp[i].String())
	}
	agents := report.Table{Header: []string{
		"agent", "connection to an old address, µs p50 / p99", "to a new one", "memory without former addresses, MiB", fmt.Sprintf("with %s", stats.Count(r.Options.Kept)),
	}}
	for _, a := range r.Agents {
		agents.Add(a.Mode, a.Old.Tail(), a.New.Tail(), stats.MiB(a.Without), stats.MiB(a.With))
	}
	return []report.Table{rates, agents}
}

// Notes are none: there are no targets.
func (r Result) Notes() []string { return nil }
