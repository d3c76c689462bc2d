package allocation

import (
	"fmt"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// rates returns the allocations per second of each turn.
func (t Turns) rates() stats.Sample {
	return t.sample(func(m measurement) float64 { return m.PerSecond })
}

func (t Turns) sample(of func(measurement) float64) stats.Sample {
	var s stats.Sample
	for _, m := range t {
		s = append(s, of(m))
	}
	return s
}

// latency returns the medians of what the turns had as median and as 99th percentile, in milliseconds.
func (t Turns) latency() string {
	p50 := t.sample(func(m measurement) float64 { return m.P50 })
	p99 := t.sample(func(m measurement) float64 { return m.P99 })
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
		existing := stats.Number(float64(l.Existing))
		ours := l.Ours.rates()
		rates.Add(existing, l.Bare.rates().String(), ours.String(), l.Upstream.rates().String(), l.Services.rates().String(),
			times(ours.Over(l.Bare.rates())), times(ours.Over(l.Upstream.rates())), times(ours.Over(l.Services.rates())))
		latencies.Add(existing, l.Bare.latency(), l.Ours.latency(), l.Upstream.latency(), l.Services.latency())
	}
	return []report.Table{rates, latencies}
}

// times writes ratios that were taken round by round.
func times(ratios stats.Sample) string {
	return fmt.Sprintf("%s (%s to %s)", stats.Number(ratios.Median()), stats.Number(ratios.Quantile(0)), stats.Number(ratios.Quantile(1)))
}

// Targets: how many times as fast as upstream's allocator ours is to be, by existing Services, and how much slower it
// may be at its slowest level than at its fastest.
var (
	advantages = map[int]float64{10_000: 10, 20_000: 30}
	flat       = 0.2
)

// Notes says which targets were reached.
func (r Result) Notes() []string {
	paced := r.loss(func(l Level) stats.Sample { return l.Ours.rates().Over(l.Bare.rates()) })
	plain := r.loss(func(l Level) stats.Sample { return l.Ours.rates() })
	notes := []string{report.Target(paced <= flat, "ours flat within 20 % over all levels, by the pace of the API server in the same rounds",
		fmt.Sprintf("%.0f %%; %.0f %% by the clock", 100*paced, 100*plain))}
	for _, l := range r.Levels {
		goal, ok := advantages[l.Existing]
		if !ok {
			continue
		}
		ratio := l.Ours.rates().Over(l.Upstream.rates()).Median()
		notes = append(notes, report.Target(ratio >= goal,
			fmt.Sprintf("%.0f times upstream's allocator at %s Services", goal, stats.Number(float64(l.Existing))), stats.Number(ratio)))
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
