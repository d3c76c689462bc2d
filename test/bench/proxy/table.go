package proxy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Tables shows everything.
func (r Result) Tables() []report.Table {
	return filled(
		r.compare(coldStart, (*Figures).cold), r.compare("one EndpointSlice change to rules, ms", (*Figures).change),
		r.ownWords(), r.latency(), r.quiet(), r.footprint(), r.translation(), r.affinity(), r.busy(),
	)
}

const coldStart = "cold start to rules, s"

// filled leaves out tables without rows.
func filled(tables ...report.Table) []report.Table {
	return slices.DeleteFunc(tables, func(t report.Table) bool { return len(t.Rows) == 0 })
}

// reading is a value, or a bound of what could not be awaited, or nothing.
type reading struct {
	value float64
	known bool
	bound bool   // the true value is larger
	words string // instead of a value that is not known, or for a bound
}

// String is the reading as a cell of a table.
func (x reading) String() string {
	switch {
	case !x.known:
		return x.words
	case x.bound:
		return "not within " + cmp.Or(x.words, stats.Number(x.value))
	default:
		return stats.Number(x.value)
	}
}

// over shows how many times as much x is.
func (x reading) over(o reading) string {
	if !x.known || !o.known || o.bound || o.value == 0 {
		return ""
	}
	ratio := stats.Number(x.value/o.value) + "x"
	if x.bound {
		return "> " + ratio
	}
	return ratio
}

// cold is in seconds.
func (f *Figures) cold() reading { return f.start(f.Cold, true) }

// restart is in seconds.
func (f *Figures) restart() reading { return f.start(f.Restart, f.Cold > 0) }

// start is that of a proxy that was late, if it did not come to an end.
func (f *Figures) start(took time.Duration, tried bool) reading {
	if took > 0 || f.Late == 0 || !tried {
		return reading{value: took.Seconds(), known: took > 0, words: f.Absent}
	}
	late := reading{value: f.Late.Seconds(), known: true, bound: true}
	if f.Late%time.Minute == 0 {
		late.words = fmt.Sprintf("%.0f min", f.Late.Minutes())
	}
	return late
}

// change is in milliseconds.
func (f *Figures) change() reading {
	if f.Stuck > 0 {
		return reading{value: f.Stuck.Seconds() * 1e3, known: true, bound: true}
	}
	return reading{value: f.Changes.Median(), known: len(f.Changes) > 0, words: f.Absent}
}

// contenders are those that took part.
func (r Result) contenders() []Contender {
	picked, _ := pick(r.Options.Proxies) // what is wrong with them was found before
	return picked
}

// compare has a row for each cluster and a column for each proxy; kube-proxy's is related to ours.
func (r Result) compare(what string, of func(*Figures) reading) report.Table {
	table := report.Table{Header: []string{what}}
	for _, who := range r.contenders() {
		table.Header = append(table.Header, who.Name)
		if who.Peer != "" {
			table.Header = append(table.Header, ": "+strings.ReplaceAll(who.Peer, "-", ", "))
		}
	}
	for _, c := range r.Cases {
		row, known := []string{c.Shape.String()}, false
		for _, who := range r.contenders() {
			x := of(c.of(who.Key))
			known = known || x.known
			row = append(row, x.String())
			if who.Peer != "" {
				row = append(row, x.over(of(c.of(who.Peer))))
			}
		}
		if known {
			table.Add(row...)
		}
	}
	return table
}

// each calls a function for every proxy that was started in a cluster.
func (r Result) each(do func(c *Case, who Contender, f *Figures)) {
	for i := range r.Cases {
		for _, who := range r.contenders() {
			if f := r.Cases[i].of(who.Key); f.Cold > 0 {
				do(&r.Cases[i], who, f)
			}
		}
	}
}

// sync is what the proxy says that a sync of a change takes, in milliseconds.
func (f *Figures) sync() reading {
	return reading{value: f.Syncs.Median(), known: len(f.Syncs) > 0, words: f.Absent}
}

// ownWords shows it.
func (r Result) ownWords() report.Table {
	return r.compare("the same, sync as the proxy itself counts it, ms", (*Figures).sync)
}

// atConnect is about what is translated there, beside what is not.
func (r Result) atConnect() []report.Table {
	return []report.Table{r.parts(), r.direct(), r.rates(), r.tracked()}
}

// parts shows what the maps of connect() take of a sync, and rules.
func (r Result) parts() report.Table {
	table := report.Table{Header: []string{"sync of one change, ms", "proxy", "whole: median", "longest", "maps: median", "longest", "share of the whole"}}
	r.each(func(c *Case, who Contender, f *Figures) {
		if !who.Ours || len(f.Syncs) == 0 {
			return
		}
		row := append([]string{c.Shape.String(), who.Name}, middleAndMost(f.Syncs)...)
		if who.Socket {
			row = append(append(row, middleAndMost(f.InMaps)...), percent(f.InMaps.Median()/f.Syncs.Median()))
		}
		table.Add(row...)
	})
	return table
}

func middleAndMost(s stats.Sample) []string {
	return []string{stats.Number(s.Median()), stats.Number(s.Quantile(1))}
}

// latency has a row for each proxy in each cluster, after one for each way to do without.
func (r Result) latency() report.Table {
	table := report.Table{Header: []string{
		"new connections, µs", "through", "to a Service: p50", "added: p50", "p90", "p99", "to another address: p50", "added: p50", "p90", "p99",
	}}
	for _, c := range r.Cases {
		row := func(through string, service, other stats.Sample) {
			if len(service) > 0 {
				cells := append([]string{c.Shape.String(), through, middle(service)}, added(service, c.Bare.Service)...)
				table.Add(append(append(cells, middle(other)), added(other, c.Bare.Other)...)...)
			}
		}
		if len(c.Bare.None) > 0 {
			table.Add(c.Shape.String(), "no rule", "", "", "", "", middle(c.Bare.None))
		}
		row("one DNAT rule, legacy", c.Bare.Service, c.Bare.Other)
		row("one DNAT rule, nft", c.Bare.ServiceNFT, c.Bare.OtherNFT)
		for _, who := range r.contenders() {
			row(who.Name, c.of(who.Key).Service, c.of(who.Key).Other)
		}
	}
	return table
}

// direct is how new connections to Services compare with those to endpoints: through no rule, and
// past the rules of the same proxy, which connection tracking is a part of.
func (r Result) direct() report.Table {
	table := report.Table{Header: []string{
		"new connections, µs", "through", "to a Service: p50", "p99", "over no rule: p50", "p99", "past the same rules: p50", "p99", "over these: p50", "p99",
	}}
	r.each(func(c *Case, who Contender, f *Figures) {
		if len(f.Service) == 0 {
			return
		}
		row := []string{c.Shape.String(), who.Name}
		for _, cells := range [][]string{ends(f.Service), over(f.Service, c.Bare.None), ends(f.Other), over(f.Service, f.Other)} {
			row = append(row, cells...)
		}
		table.Add(row...)
	})
	for _, c := range r.Cases {
		if len(c.Bare.None) > 0 {
			table.Add(append([]string{c.Shape.String(), "no rule", "", "", "", ""}, ends(c.Bare.None)...)...)
		}
	}
	return table
}

// ends are p50 and p99.
func ends(s stats.Sample) []string { return []string{middle(s), stats.Number(s.Quantile(0.99))} }

// over is by how much p50 is larger, and p99, with its share.
func over(s, base stats.Sample) []string {
	return []string{stats.Number(more(s, base, 0.5)), stats.Number(more(s, base, 0.99)) + " (" + percent(s.Quantile(0.99)/base.Quantile(0.99)-1) + ")"}
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// rates has a row for each proxy, with what it lets through of what goes without it.
func (r Result) rates() report.Table {
	table := report.Table{Header: []string{
		"requests answered in a second", "through", "on one connection to a Service", "of no rule", "of those past the same rules",
		"each on a connection of its own", "of no rule", "of those past the same rules",
	}}
	row := func(c *Case, through string, to, past Rates) {
		cells := []string{c.Shape.String(), through}
		for _, x := range [][3]stats.Sample{{to.One, c.Bare.Rates.One, past.One}, {to.Each, c.Bare.Rates.Each, past.Each}} {
			cells = append(cells, stats.Number(x[0].Median()), percent(share(x[0], x[1])), percent(share(x[0], x[2])))
		}
		table.Add(cells...)
	}
	for i := range r.Cases {
		if c := &r.Cases[i]; len(c.Bare.Rates.One) > 0 {
			row(c, "no rule, to an endpoint", c.Bare.Rates, c.Bare.Rates)
		}
	}
	r.each(func(c *Case, who Contender, f *Figures) {
		if len(f.ToService.One) > 0 {
			row(c, who.Name, f.ToService, f.ToOther)
		}
	})
	return table
}

// share is that of medians: the pace moves within a round as much as from one to another.
func share(part, of stats.Sample) float64 { return part.Median() / of.Median() }

func (r Result) tracked() report.Table {
	table := report.Table{Header: []string{"tracked connections", "through", "connections between two pods", "entries: to Services", "of these translated", "to endpoints"}}
	r.each(func(c *Case, who Contender, f *Figures) {
		if t := f.Tracked; t.Connections > 0 {
			table.Add(c.Shape.String(), who.Name, stats.Count(t.Connections), stats.Count(t.Service), stats.Count(t.Translated), stats.Count(t.Other))
		}
	})
	for _, c := range r.Cases {
		if t := c.Bare.Tracked; t.Connections > 0 {
			table.Add(c.Shape.String(), "no rule", stats.Count(t.Connections), "", "", stats.Count(t.Other))
		}
	}
	return table
}

func (r Result) translation() report.Table {
	table := report.Table{Header: []string{"translated at connect()", "proxy", "BPF maps, MiB", "ns in programs: to a Service", "to another address"}}
	r.each(func(c *Case, who Contender, f *Figures) {
		if t := f.Translation; t.Maps > 0 {
			table.Add(c.Shape.String(), who.Name, stats.MiB(t.Maps), stats.Number(t.ToService), stats.Number(t.ToOther))
		}
	})
	return table
}

func middle(s stats.Sample) string { return stats.Number(s.Quantile(0.5)) }

// added are the differences of p50, p90 and p99.
func added(s, base stats.Sample) (cells []string) {
	for _, q := range []float64{0.5, 0.9, 0.99} {
		cells = append(cells, stats.Number(more(s, base, q)))
	}
	return cells
}

// more is by how much a quantile is larger.
func more(s, base stats.Sample, q float64) float64 { return s.Quantile(q) - base.Quantile(q) }

func (r Result) quiet() report.Table {
	table := report.Table{Header: []string{"quiet minute", "proxy", "RSS, MiB", ": ours", "CPU with children, ms"}}
	r.each(func(c *Case, who Contender, f *Figures) {
		if f.Quiet {
			table.Add(c.Shape.String(), who.Name, stats.MiB(f.RSS), ratio(float64(f.RSS), float64(c.of(who.Peer).RSS)),
				stats.Number(f.CPU.Seconds()*1e3))
		}
	})
	return table
}

// ratio is empty where there is nothing to compare with.
func ratio(a, b float64) string {
	if a == 0 || b == 0 || math.IsNaN(a) || math.IsNaN(b) {
		return ""
	}
	return stats.Number(a/b) + "x"
}

func (r Result) footprint() report.Table {
	table := report.Table{Header: []string{"in the kernel", "proxy", "rules", "chains", "entries of sets", "text, kB", ": ours"}}
	r.each(func(c *Case, who Contender, f *Figures) {
		k := f.Footprint
		table.Add(c.Shape.String(), who.Name, stats.Count(k.Rules), stats.Count(k.Chains), stats.Count(k.Entries), stats.Number(float64(k.Bytes)/1e3),
			ratio(float64(k.Bytes), float64(c.of(who.Peer).Footprint.Bytes)))
	})
	return table
}

func (r Result) affinity() report.Table {
	table := report.Table{Header: []string{"affinity to 2 endpoints", "clients", "come to the same endpoint again", "share"}}
	r.each(func(_ *Case, who Contender, f *Figures) {
		if f.Clients > 0 {
			table.Add(who.Name, stats.Count(f.Clients), stats.Count(f.Kept), fmt.Sprintf("%.0f %%", 100*float64(f.Kept)/float64(f.Clients)))
		}
	})
	return table
}

func (r Result) busy() report.Table {
	table := report.Table{Header: []string{
		"new connections to Services while endpoints change, µs", "proxy", "p50", "p99", "p99 of kube-proxy : ours",
		"connections", "failed", "changes", "syncs",
	}}
	r.each(func(c *Case, who Contender, f *Figures) {
		if len(f.Busy) > 0 {
			table.Add(c.Shape.String(), who.Name, middle(f.Busy), stats.Number(f.Busy.Quantile(0.99)),
				ratio(f.Busy.Quantile(0.99), c.of(who.Peer).Busy.Quantile(0.99)),
				stats.Count(len(f.Busy)), stats.Count(f.Failed), stats.Count(f.Pushed), stats.Count(f.BusySyncs))
		}
	})
	return table
}
