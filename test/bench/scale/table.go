package scale

import (
	"fmt"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

const (
	// mostRatio is how much more an event may cost in a larger world.
	mostRatio = 1.3
	// mostSweep is how long looks at all growing policies may take, mostLeaderless until a replica
	// leads when another one has gone.
	mostSweep, mostLeaderless = time.Second, 3 * time.Second
)

// Tables shows lives, events, looks of growth, answers, and changes of the leader.
func (r Result) Tables() []report.Table {
	return []report.Table{r.lives(), r.events(), r.answers(), r.handovers()}
}

// lives has a column for each level.
func (r Result) lives() report.Table {
	header := []string{"the manager at"}
	for _, s := range r.Stages {
		header = append(header, s.String())
	}
	table := report.Table{Header: header}
	row := func(name string, of func(Stage) string) {
		cells := []string{name}
		for _, s := range r.Stages {
			cells = append(cells, of(s))
		}
		table.Add(cells...)
	}
	seconds := func(of func(Stage) time.Duration) func(Stage) string {
		return func(s Stage) string { return stats.Seconds(of(s)) }
	}
	mebibytes := func(of func(Stage) int64) func(Stage) string {
		return func(s Stage) string { return stats.MiB(of(s)) }
	}
	row("policies, as many as ranges; reservations", func(s Stage) string {
		return stats.Count(s.Ranges) + "; " + stats.Count(s.Ranges*reserved)
	})
	row("first start, until all is written and quiet, s", seconds(func(s Stage) time.Duration { return s.Placed }))
	row("second start, to /readyz, s", seconds(func(s Stage) time.Duration { return s.Start.Ready }))
	row("to the lead, s", seconds(func(s Stage) time.Duration { return s.Start.Leads }))
	row("to all checked, s", seconds(func(s Stage) time.Duration { return s.Start.Checked }))
	row("processor time until then, s", seconds(func(s Stage) time.Duration { return s.Start.CPU }))
	row("resident memory then, MiB", mebibytes(func(s Stage) int64 { return s.Start.RSS }))
	row("resident memory when idle, MiB", mebibytes(func(s Stage) int64 { return s.Idle.RSS }))
	row("at its peak, with all events, MiB", mebibytes(func(s Stage) int64 { return s.Peak }))
	row("kube-controller-manager, idle, MiB", mebibytes(func(s Stage) int64 { return s.Peer }))
	row("idle, ms of a processor in a second", func(s Stage) string { return stats.Number(1000 * s.Idle.CPU) })
	row("growing policies", func(s Stage) string { return stats.Count(s.Sweep.Growing) })
	row("looks at them after changes of a range that concerns none", func(s Stage) string { return stats.Count(s.Sweep.Idle) })
	row("after a change that concerns all", func(s Stage) string { return stats.Count(s.Sweep.Looked) })
	row("from that change to the last look, s", seconds(func(s Stage) time.Duration { return s.Sweep.Took }))
	row("the looks alone, ms", func(s Stage) string { return stats.Number(s.Sweep.Worked.Seconds() * 1e3) })
	row("the same if all have something else to say, s", seconds(func(s Stage) time.Duration { return s.Sweep.Told }))
	return table
}

// events has a row for each kind, and how its cost grows from level to level.
func (r Result) events() report.Table {
	header := []string{"processor time of the manager, µs"}
	for _, s := range r.Stages {
		header = append(header, s.String())
	}
	for _, t := range r.steps() {
		header = append(header, t.String())
	}
	table := report.Table{Header: header}
	for _, k := range kinds {
		cells := []string{k.name}
		for _, s := range r.Stages {
			cells = append(cells, stats.Number(s.Costs[k.name].Each.Seconds()*1e6))
		}
		for _, t := range r.steps() {
			cells = append(cells, stats.Number(t.ratio(k)))
		}
		table.Add(cells...)
	}
	return table
}

// step is from a level to the next one.
type step struct{ from, to Stage }

func (r Result) steps() (all []step) {
	for i := 1; i < len(r.Stages); i++ {
		all = append(all, step{r.Stages[i-1], r.Stages[i]})
	}
	return all
}

// String says what has grown.
func (t step) String() string {
	if t.from.Services == t.to.Services {
		return fmt.Sprintf("%s : %s ranges", stats.Count(t.to.Ranges), stats.Count(t.from.Ranges))
	}
	return fmt.Sprintf("%s : %s Services", stats.Count(t.to.Services), stats.Count(t.from.Services))
}

// least is what an event costs at least, as far as the clock of processor time can tell.
const least = 10 * time.Microsecond

// ratio is how many times as much an event costs.
func (t step) ratio(k kind) float64 {
	return max(t.to.Costs[k.name].Each, least).Seconds() / max(t.from.Costs[k.name].Each, least).Seconds()
}

func (r Result) answers() report.Table {
	table := report.Table{Header: []string{"answers of the webhook to a Service of two families, ms", "asked", "p50", "p99", "longest"}}
	for _, one := range []struct {
		name string
		of   stats.Sample
	}{{"without churn", r.Asked}, {"with churn", r.AskedInChurn}} {
		table.Add(one.name, stats.Count(len(one.of)), stats.Number(one.of.Median()), stats.Number(one.of.Quantile(.99)), stats.Number(one.of.Quantile(1)))
	}
	return table
}

func (r Result) handovers() report.Table {
	table := report.Table{Header: []string{
		"the leader, with churn, is", "another one leads after, s", "webhooks asked", "without an answer", "unsteered", "longest answer, s", "Services created", "refused", "unsteered",
	}}
	for _, h := range r.Handovers {
		table.Add(h.How, stats.Seconds(h.Leads), stats.Count(h.Asked), stats.Count(h.Unanswered), stats.Count(h.Unsteered), stats.Seconds(h.Longest), stats.Count(h.Created), stats.Count(h.Refused), stats.Count(h.Stray))
	}
	return table
}

// Notes say what churn was, and which targets were reached.
func (r Result) Notes() (all []string) {
	perSecond := func(n int) string { return stats.Number(float64(n) / r.Churned.Took.Seconds()) }
	all = append(all, fmt.Sprintf("Churn: %s writes of Services in a second (of ten one comes and one goes), %s of EndpointSlices, %s of nodes.",
		perSecond(r.Churned.Services), perSecond(r.Churned.EndpointSlices), perSecond(r.Churned.Nodes)))
	for _, t := range r.steps() {
		for _, k := range kinds {
			all = append(all, report.Target(t.ratio(k) <= mostRatio, fmt.Sprintf("%s for at most %s times as much, %s", k.name, stats.Number(mostRatio), t), stats.Number(t.ratio(k))))
		}
	}
	for _, s := range r.Stages[max(0, len(r.Stages)-1):] {
		all = append(all, report.Target(s.Sweep.Took < mostSweep && s.Sweep.Idle == 0, fmt.Sprintf("looks at %s growing policies within %s s, and none for what concerns none",
			stats.Count(s.Sweep.Growing), stats.Seconds(mostSweep)), stats.Seconds(s.Sweep.Took)+" s"))
	}
	for _, h := range r.Handovers[:min(1, len(r.Handovers))] {
		all = append(all, report.Target(h.Leads <= mostLeaderless && h.Unsteered+h.Stray == 0, fmt.Sprintf("another replica leads within %s s when the leader is %s, and no Service is unsteered",
			stats.Seconds(mostLeaderless), h.How), fmt.Sprintf("%s s, %d", stats.Seconds(h.Leads), h.Unsteered+h.Stray)))
	}
	return all
}
