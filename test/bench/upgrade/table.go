package upgrade

import (
	"fmt"
	"math"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Tables shows the starts, the commands, and the rates.
func (r Result) Tables() []report.Table {
	tables := []report.Table{r.starts(), r.commands()}
	if len(r.Rates.Run) > 0 {
		tables = append(tables, r.Rates.table())
	}
	return tables
}

// starts has a row for each kind of cluster.
func (r Result) starts() report.Table {
	table := report.Table{Header: []string{
		"first start of the new API server", "as it is: /readyz after, s", "restarts", "warnings", "IPAddresses written",
		"migrated: /readyz after, s", "warnings", "IPAddresses written", "sooner by",
	}}
	for _, c := range r.Cases {
		table.Add(c.Shape.String(), c.Without.ready().orNever(r.Options.Bound), c.Without.count(restarts), c.Without.count(events), c.Without.count(written),
			c.With.ready().orNever(r.Options.Bound), c.With.count(events), c.With.count(written), stats.Number(c.advantage()))
	}
	return table
}

func restarts(f Flip) int { return f.Restarts }
func events(f Flip) int   { return f.Events }
func written(f Flip) int  { return f.Written }

// count shows a number that ought to be the same every time, and all that there were if it is not.
func (f Flips) count(of func(Flip) int) string {
	s := f.sample(of)
	if low, high := s.Quantile(0), s.Quantile(1); low != high {
		return whole(low) + " to " + whole(high)
	}
	return whole(s.Median())
}

// whole writes what was counted, and has nothing behind its point.
func whole(n float64) string {
	if n < 1000 {
		return fmt.Sprintf("%.0f", n)
	}
	return stats.Number(n)
}

// orNever shows times, if there are any.
func (t times) orNever(bound time.Duration) string {
	if len(t) == 0 {
		return fmt.Sprintf("not within %.0f min", bound.Minutes())
	}
	return stats.Sample(t).String()
}

// advantage is how many times as soon the migrated cluster is ready.
func (c Case) advantage() float64 { return c.Without.middle() / c.With.middle() }

// middle is the median of the seconds to /readyz, NaN if that never came.
func (f Flips) middle() float64 { return stats.Sample(f.ready()).Median() }

// commands has a row for each kind of cluster, with time and memory of every command.
func (r Result) commands() report.Table {
	table := report.Table{Header: []string{"the commands with", "check, s / MiB", "run, s / MiB", "verify, s / MiB", "seed, s / MiB", "rollback, s / MiB"}}
	for _, c := range r.Cases {
		table.Add(c.Shape.String(), c.Check.String(), c.Run.String(), c.Verify.String(), c.Seed.orDash(), c.Rollback.orDash())
	}
	return table
}

// String shows time and memory.
func (u Usage) String() string {
	return stats.Number(u.Took.Seconds()) + " / " + stats.Number(float64(u.Peak)/(1<<20))
}

func (u *Usage) orDash() string {
	if u == nil {
		return "-"
	}
	return u.String()
}

// table has one row: the rates and how they compare, round by round.
func (r Rates) table() report.Table {
	table := report.Table{Header: []string{
		"writing the IPAddresses of", "bare loop, /s", "migrate run, /s", "migrate run while it writes, /s", "run : bare", "writing : bare",
	}}
	table.Add(r.Shape.String(), r.Bare.String(), r.Run.String(), r.Writing.String(), ratios(r.Run.Over(r.Bare)), ratios(r.Writing.Over(r.Bare)))
	return table
}

// ratios shows what was taken round by round.
func ratios(s stats.Sample) string {
	return fmt.Sprintf("%s (%s to %s)", stats.Number(s.Median()), stats.Number(s.Quantile(0)), stats.Number(s.Quantile(1)))
}

// Targets.
const (
	targetSize      = 10_000
	targetAdvantage = 15
	flatFrom        = 1_000
	flatTo          = 30_000
	targetFlat      = 2
	targetRate      = 0.8
)

// Notes says which targets were reached.
func (r Result) Notes() (notes []string) {
	if c := r.find(targetSize); c != nil {
		goal := fmt.Sprintf("ready at least %d times sooner after a migration, with %s", targetAdvantage, c.Shape)
		notes = append(notes, report.Target(c.advantage() >= targetAdvantage, goal, stats.Number(c.advantage())))
	}
	worst := r.mostWarnings()
	notes = append(notes, report.Target(worst == 0, "no warning after a migration, at any size", whole(worst)))
	if from, to := r.find(flatFrom), r.find(flatTo); from != nil && to != nil {
		growth := to.With.middle() / from.With.middle()
		goal := fmt.Sprintf("after a migration, %s take less than %d times as long as %s", to.Shape, targetFlat, from.Shape)
		notes = append(notes, report.Target(growth < targetFlat, goal, stats.Number(growth)))
	}
	if len(r.Rates.Run) > 0 {
		run, writing := r.Rates.Run.Over(r.Rates.Bare).Median(), r.Rates.Writing.Over(r.Rates.Bare).Median()
		notes = append(notes, report.Target(run >= targetRate, "`migrate run` as a whole reaches 80 % of the bare loop", percent(run)),
			report.Target(writing >= targetRate, "`migrate run` reaches 80 % of the bare loop while it writes", percent(writing)))
	}
	return notes
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// find returns the case of one family with so many Services, nil if there is none.
func (r Result) find(services int) *Case {
	for i := range r.Cases {
		if r.Cases[i].Shape == (Shape{Services: services}) {
			return &r.Cases[i]
		}
	}
	return nil
}

// mostWarnings is the most of any start after a migration.
func (r Result) mostWarnings() (most float64) {
	for _, c := range r.Cases {
		most = math.Max(most, c.With.sample(events).Quantile(1))
	}
	return most
}
