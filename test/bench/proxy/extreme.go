package proxy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/population"
	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Extreme is a part of the benchmark with clusters unlike most.
type Extreme struct {
	Name        string
	full, quick Options
	tables      func(Result) []report.Table
}

// Extremes are all of them. Those of kube-proxy take part that come to an end in minutes, unless it
// has Proxies of its own.
var Extremes = []Extreme{
	{
		"proxy-sizes",
		Options{Sizes: []int{10_000, 30_000}, Scale: population.More, Changes: 3, Compare: true, Timeout: 2 * time.Minute},
		Options{Sizes: []int{1_000}, Scale: population.More, Changes: 1, Compare: true, Timeout: time.Minute},
		func(r Result) []report.Table {
			return []report.Table{r.compare(coldStart, (*Figures).cold), r.memory(), r.steps("3 endpoints, one more and one less"), r.comparisons()}
		},
	},
	{
		"proxy-affinity",
		Options{Sizes: []int{1_000, 10_000}, Sticky: true, Restart: true, Timeout: 4 * time.Minute, Rounds: 20, Count: 300},
		Options{Sizes: []int{1_000}, Sticky: true, Restart: true, Timeout: time.Minute, Rounds: 2, Count: 100},
		func(r Result) []report.Table {
			return []report.Table{r.compare(coldStart, (*Figures).cold), r.compare("restart to rules, s", (*Figures).restart), r.latency()}
		},
	},
	{
		"proxy-endpoints",
		Options{Endpoints: 10_000, Scale: population.Fewer, Changes: 5, Timeout: time.Minute},
		Options{Endpoints: 1_000, Scale: population.Fewer, Changes: 1, Timeout: time.Minute},
		func(r Result) []report.Table {
			return []report.Table{r.compare(coldStart, (*Figures).cold), r.steps("one of the endpoints goes and comes")}
		},
	},
	{
		"proxy-clients",
		Options{Sizes: []int{1}, Leave: true, Clients: 50_000, Timeout: time.Minute},
		Options{Sizes: []int{1}, Leave: true, Clients: 500, Timeout: time.Minute},
		func(r Result) []report.Table { return []report.Table{r.left()} },
	},
	{
		"proxy-scaling",
		Options{Endpoints: 10, Scaling: true, Busy: 20 * time.Second, BusyAt: 1, Timeout: time.Minute},
		Options{Endpoints: 10, Scaling: true, Busy: 2 * time.Second, BusyAt: 1, Timeout: time.Minute},
		func(r Result) []report.Table { return []report.Table{r.busy()} },
	},
	{
		"proxy-socketlb",
		socketOptions([]int{10_000}, []int{1_000}, 60, 150, 10_000),
		socketOptions([]int{1_000}, []int{100}, 4, 20, 1_000),
		func(r Result) []report.Table {
			changes := []report.Table{r.compare(coldStart, (*Figures).cold), r.compare("one EndpointSlice change to rules, ms", (*Figures).change), r.ownWords()}
			return slices.Concat(changes, r.atConnect(), []report.Table{r.translation(), r.memory()})
		},
	},
	{
		"proxy-large",
		largeOptions(socketOptions([]int{100_000}, nil, 30, 150, 10_000), 3*time.Minute),
		largeOptions(socketOptions([]int{1_000}, nil, 4, 20, 1_000), time.Minute),
		func(r Result) []report.Table { return slices.Concat(r.atOnce(), r.atConnect()) },
	},
}

// socketOptions are about what is translated at connect(), beside the same without, and kube-proxy.
func socketOptions(sizes, sizesV6 []int, rounds, rateRounds, tracked int) Options {
	return Options{
		Sizes: sizes, SizesV6: sizesV6, Proxies: []string{oursNative, oursSocket, theirsNFTable}, Timeout: 4 * time.Minute, Changes: 7,
		Rounds: rounds, Count: 500, Requests: 1_000, RateRounds: rateRounds, Tracked: tracked,
	}
}

// largeOptions are about one large cluster, with the kube-proxy that is ready there first.
func largeOptions(o Options, timeout time.Duration) Options {
	o.Proxies, o.Timeout, o.Compare = []string{oursNative, oursSocket, theirsLegacy}, timeout, true
	return o
}

// Run measures it, as root. Without proxies, it measures its own, or those that come to an end in
// minutes.
func (e Extreme) Run(ctx context.Context, quick bool, proxies []string, log *progress.Log) (result ExtremeResult, err error) {
	o := e.full
	if quick {
		o = e.quick
	}
	if len(proxies) > 0 {
		o.Proxies = proxies
	} else if len(o.Proxies) == 0 {
		o.Proxies = []string{oursLegacy, oursNFT, theirsLegacy, oursNative, oursSocket, theirsNFTable}
	}
	o.ChangesLimit = changeTimeout
	result.Extreme = e
	result.Result, err = Run(ctx, o, log)
	return result, err
}

// ExtremeResult is what an Extreme has measured.
type ExtremeResult struct {
	Result
	Extreme
}

// Tables shows what the part is about.
func (r ExtremeResult) Tables() []report.Table { return filled(r.tables(r.Result)...) }

// Targets of ours in extremes.
const (
	mostStickyCold = 2   // s, with nftables and affinity of all of 10,000 Services
	mostMeanwhile  = 100 // ms, a change while all is compared
	mostWritten    = 10  // elements, as one of many endpoints goes
)

// Notes says which targets were reached.
func (r ExtremeResult) Notes() []string {
	var n notes
	r.each(func(c *Case, who Contender, f *Figures) {
		native := who.Key == oursNative
		o := r.Options
		if o.Requests > 0 && who.Socket {
			n.socket(c)
		}
		switch {
		case !who.Ours:
		case o.Compare:
			n.meanwhile(c, who, f.Same.Change.Took)
			n.meanwhile(c, who, f.Drifted.Change.Took)
		case o.Sticky && native && c.Shape.Services == targetSize:
			n.most("cold start, s, affinity of "+c.Shape.String(), f.cold(), mostStickyCold)
		case o.Scale == population.Fewer && native:
			written := f.Less.Written.Median()
			n.add(written <= mostWritten, stats.Number(written), "%s: %s writes at most %d elements as an endpoint goes", c.Shape, who.Name, mostWritten)
		case o.Leave:
			n.add(f.Left.After == 0, stats.Count(f.Left.After), "%s leads no client to an endpoint that has gone", who.Name)
		case o.Scaling:
			n.add(f.Failed == 0, fmt.Sprintf("%s of %s", stats.Count(f.Failed), stats.Count(f.Failed+len(f.Busy))),
				"%s fails no connection while 10 endpoints become one and 10 again", who.Name)
		}
	})
	return n.all
}

// meanwhile looks at a change that was made as a comparison had begun.
func (n *notes) meanwhile(c *Case, who Contender, took stats.Sample) {
	if len(took) > 0 {
		n.add(took.Median() <= mostMeanwhile, took.String(), "%s: %s has a change within %d ms while it compares", c.Shape, who.Name, mostMeanwhile)
	}
}

func (r Result) memory() report.Table {
	table := report.Table{Header: []string{"memory after the changes", "proxy", "RSS, MiB", ": ours", "at most until then, MiB", ": ours", "heap in use, MiB", ": ours"}}
	r.each(func(c *Case, who Contender, f *Figures) {
		if f.Peak > 0 {
			ours := c.of(who.Peer)
			table.Add(c.Shape.String(), who.Name, stats.MiB(f.RSS), ratio(float64(f.RSS), float64(ours.RSS)),
				stats.MiB(f.Peak), ratio(float64(f.Peak), float64(ours.Peak)), stats.MiB(f.Live), ratio(float64(f.Live), float64(ours.Live)))
		}
	})
	return table
}

func (r Result) steps(what string) report.Table {
	table := report.Table{Header: []string{
		what, "proxy", "one more: ms until in the kernel", ": ours", "sync, ms", "written",
		"one less: ms until in the kernel", ": ours", "sync, ms", "written",
	}}
	r.each(func(c *Case, who Contender, f *Figures) {
		if len(f.More.Took) > 0 {
			ours := c.of(who.Peer)
			table.Add(append(append([]string{c.Shape.String(), who.Name}, f.More.cells(ours.More)...), f.Less.cells(ours.Less)...)...)
		}
	})
	return table
}

// cells are medians, and how many times as much as ours it took.
func (s Steps) cells(ours Steps) []string {
	return []string{
		stats.Number(s.Took.Median()), ratio(s.Took.Median(), ours.Took.Median()), stats.Number(s.Syncs.Median()), stats.Number(s.Written.Median()),
	}
}

func (r Result) comparisons() report.Table {
	table := report.Table{Header: []string{"all compared with the kernel", "proxy", "what differs", "s", "CPU, s", "one endpoint more meanwhile: ms until in the kernel"}}
	r.each(func(c *Case, who Contender, f *Figures) {
		for _, x := range []struct {
			Comparison
			what string
		}{{f.Same, "nothing"}, {f.Drifted, "one element more"}} {
			if x.Took+x.CPU > 0 {
				table.Add(c.Shape.String(), who.Name, x.what, stats.Seconds(x.Took), stats.Seconds(x.CPU), stats.Number(x.Change.Took.Median()))
			}
		}
	})
	return table
}

func (r Result) left() report.Table {
	table := report.Table{Header: []string{
		"an endpoint goes to which all clients came", "clients", "ms until in the kernel", ": ours", "sync, ms", "written",
		"connections of one client to it afterwards", "the last after, ms",
	}}
	r.each(func(c *Case, who Contender, f *Figures) {
		if l := f.Left; l.Clients > 0 {
			table.Add(append(append([]string{who.Name, stats.Count(l.Clients)}, l.cells(c.of(who.Peer).Left.Steps)...),
				stats.Count(l.After), stats.Number(l.Last.Seconds()*1e3))...)
		}
	})
	return table
}
