package proxy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// figure is one of a summary.
type figure struct {
	file, title, unit string
	of                func(c *Case, f *Figures) reading
}

var summarized = []figure{
	{"cold-start", "Cold start", "s", func(_ *Case, f *Figures) reading { return f.cold() }},
	{"change", "One change of an EndpointSlice", "ms", func(_ *Case, f *Figures) reading { return f.change() }},
	{"added", "Added to a new connection, p50", "µs", func(c *Case, f *Figures) reading {
		if len(f.Service) == 0 || len(c.Bare.Service) == 0 {
			return reading{words: "-"}
		}
		return reading{value: more(f.Service, c.Bare.Service, 0.5), known: true}
	}},
	{"memory", "Memory (RSS)", "MiB", func(_ *Case, f *Figures) reading { return mebibytes(f.RSS) }},
}

// once are figures of one large cluster.
var once = []figure{
	{title: "Cold start", unit: "s", of: func(_ *Case, f *Figures) reading { return f.cold() }},
	{title: "One change of an EndpointSlice, median", unit: "ms", of: func(_ *Case, f *Figures) reading { return f.change() }},
	{title: "Sync of it, as the proxy counts it", unit: "ms", of: func(_ *Case, f *Figures) reading { return f.sync() }},
	{title: "All compared with the kernel", unit: "s", of: func(_ *Case, f *Figures) reading { return seconds(f.Same.Took) }},
	{title: "The same, processor time", unit: "s", of: func(_ *Case, f *Figures) reading { return seconds(f.Same.CPU) }},
	{title: "A change meanwhile", unit: "ms", of: func(_ *Case, f *Figures) reading { return first(f.Same.Change.Took) }},
	{title: "All compared, one element differs", unit: "s", of: func(_ *Case, f *Figures) reading { return seconds(f.Drifted.Took) }},
	{title: "The same, processor time", unit: "s", of: func(_ *Case, f *Figures) reading { return seconds(f.Drifted.CPU) }},
	{title: "A change meanwhile", unit: "ms", of: func(_ *Case, f *Figures) reading { return first(f.Drifted.Change.Took) }},
	{title: "Memory (RSS)", unit: "MiB", of: func(_ *Case, f *Figures) reading { return mebibytes(f.RSS) }},
	{title: "At most until then", unit: "MiB", of: func(_ *Case, f *Figures) reading { return mebibytes(f.Peak) }},
	{title: "Heap in use after a collection", unit: "MiB", of: func(_ *Case, f *Figures) reading { return mebibytes(f.Live) }},
	{title: "BPF maps in the kernel", unit: "MiB", of: func(_ *Case, f *Figures) reading { return mebibytes(f.Translation.Maps) }},
}

func seconds(d time.Duration) reading { return reading{value: d.Seconds(), known: d > 0, words: "-"} }

func first(s stats.Sample) reading {
	return reading{value: s.Median(), known: len(s) > 0, words: "-"}
}

func mebibytes(n int64) reading {
	return reading{value: float64(n) / (1 << 20), known: n > 0, words: "-"}
}

// atOnce has a table for each cluster: a row for each figure, and a column for each proxy.
func (r Result) atOnce() (all []report.Table) {
	for i := range r.Cases {
		c := &r.Cases[i]
		table := report.Table{Header: []string{c.Shape.String()}}
		for _, who := range r.contenders() {
			table.Header = append(table.Header, who.Name)
		}
		for _, x := range once {
			row := []string{x.title + ", " + x.unit}
			for _, who := range r.contenders() {
				row = append(row, x.of(c, c.of(who.Key)).String())
			}
			table.Add(row...)
		}
		all = append(all, table)
	}
	return all
}

// Summary is what ours takes in its peer's largest clusters, and how many times as much the peer.
func (r Result) Summary() report.Table {
	table := report.Table{Header: []string{"Services, each with 3 endpoints", "figure"}}
	for _, pair := range pairs() {
		table.Header = append(table.Header, pair[0].Name, strings.TrimPrefix(pair[1].Name, "kube-proxy "))
	}
	for _, mixed := range []bool{false, true} {
		for _, n := range []int{targetSize, flatTo} {
			if c := r.find(n, mixed); c != nil {
				for _, x := range summarized {
					table.Add(r.summary(c, x)...)
				}
			}
		}
	}
	return table
}

func (r Result) summary(c *Case, x figure) []string {
	row := []string{strings.Replace(c.Shape.String(), " x 3", "", 1), x.title + ", " + x.unit}
	for _, pair := range pairs() {
		ours, theirs := x.of(c, c.of(pair[0].Key)), x.of(c, c.of(pair[1].Key))
		row = append(row, ours.String(), strings.TrimSpace(theirs.String()+" "+inBrackets(theirs.over(ours))))
	}
	return row
}

func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}

// Charts draw it by the number of Services with ClusterIPs only, without starts that did not end.
func (r Result) Charts() (all []report.Chart) {
	for _, x := range summarized {
		chart := report.Chart{File: x.file + ".svg", Title: x.title + ", " + x.unit, X: "Services", Y: x.unit}
		for color, pair := range pairs() {
			for _, who := range pair {
				if line := r.line(x, who); len(line) > 0 {
					chart.Lines = append(chart.Lines, report.Line{Name: who.Name, Color: color, Dashed: !who.Ours, Points: line})
				}
			}
		}
		all = append(all, chart)
	}
	return all
}

func (r Result) line(x figure, who Contender) (points [][2]float64) {
	for i := range r.Cases {
		c := &r.Cases[i]
		if c.Shape.Family != model.IPv4 || c.Shape.Mixed || c.Shape.Endpoints != endpoints {
			continue
		}
		if y := x.of(c, c.of(who.Key)); y.known && !y.bound && y.value > 0 {
			points = append(points, [2]float64{float64(c.Shape.Services), y.value})
		}
	}
	slices.SortFunc(points, func(a, b [2]float64) int { return int(a[0] - b[0]) })
	return points
}

// Pictures are the charts in the words of markdown.
func (r Result) Pictures(folder string) (lines []string) {
	for _, c := range r.Charts() {
		lines = append(lines, fmt.Sprintf("![%s](%s/%s)", c.Title, folder, c.File))
	}
	return append(lines, fmt.Sprintf("Solid lines are ours, dashed ones kube-proxy with the same kind of rules; lower is better. Without a point at %s, a proxy was not tried there or not ready within %s.",
		stats.Count(flatTo), r.Options.Timeout))
}
