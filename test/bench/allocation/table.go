package allocation

import (
	"fmt"

	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// latency returns the medians of the turns' medians and of their 99th percentiles, in milliseconds.
func latency(turns load.Outcomes) string {
	var p50, p99 stats.Sample
	for _, o := range turns {
		p50, p99 = append(p50, o.Latencies.Median()), append(p99, o.Latencies.Quantile(0.99))
	}
	return stats.Number(p50.Median()) + " / " + stats.Number(p99.Median())
}

// Tables shows rates and latencies.
func (r Result) Tables() []report.Table {
	rates := report.Table{Header: []string{
		"existing Services", "no allocator, /s", "ours, /s", "upstream's allocator, /s", "creating Services, /s",
		"ours : none", "ours : upstream's", "ours : Services",
	}}
	latencies := report.Table{Header: []string{
		"existing Services", "no allocator, ms p50 / p99", "ours, ms p50 / p99", "upstream's allocator, ms p50 / p99", "creating Services, ms p50 / p99",
	}}
	for _, l := range r.Levels {
		existing := stats.Count(l.Existing)
		none, ours, theirs, services := l.Bare.Rates(), l.Ours.Rates(), l.Upstream.Rates(), l.Services.Rates()
		rates.Add(existing, none.String(), ours.String(), theirs.String(), services.String(),
			ours.Over(none).Range(), ours.Over(theirs).Range(), ours.Over(services).Range())
		latencies.Add(existing, latency(l.Bare), latency(l.Ours), latency(l.Upstream), latency(l.Services))
	}
	return []report.Table{rates, latencies}
}

// Targets: how many times as fast as upstream's allocator ours is to be, by existing Services, and
// how much slower ours may be at its slowest level than at its fastest.
var (
	advantages = map[int]float64{10_000: 10, 20_000: 30}
	flat       = 0.2
)

// Notes says which targets were reached.
func (r Result) Notes() []string {
	paced := r.loss(func(l Level) stats.Sample { return l.Ours.Rates().Over(l.Bare.Rates()) })
	plain := r.loss(func(l Level) stats.Sample { return l.Ours.Rates() })
	notes := []string{report.Target(paced <= flat, "ours flat within 20 % over all levels, by the pace of the API server in the same rounds",
		fmt.Sprintf("%.0f %%; %.0f %% by the clock", 100*paced, 100*plain))}
	for _, l := range r.Levels {
		goal, ok := advantages[l.Existing]
		if !ok {
			continue
		}
		ratio := l.Ours.Rates().Over(l.Upstream.Rates()).Median()
		notes = append(notes, report.Target(ratio >= goal,
			fmt.Sprintf("%.0f times upstream's allocator at %s Services", goal, stats.Count(l.Existing)), stats.Number(ratio)))
	}
	return notes
}

// loss is how far the slowest level is behind the fastest, as a share of the fastest.
func (r Result) loss(of func(Level) stats.Sample) float64 {
	var medians stats.Sample
	for _, l := range r.Levels {
		medians = append(medians, of(l).Median())
	}
	return 1 - medians.Quantile(0)/medians.Quantile(1)
}
