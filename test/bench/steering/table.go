package steering

import (
	"fmt"
	"strconv"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Tables shows creations with their processor time, other operations, replicas, kept addresses, and decisions.
func (r Result) Tables() []report.Table {
	return []report.Table{r.creations(), r.processors(), r.others(), r.replicas(), r.keeping(), r.deletions(), r.decisions(), r.scale()}
}

// creations has a row for each combination.
func (r Result) creations() report.Table {
	table := report.Table{Header: []string{
		"creation: Services there", "policies", "families", "clients", "p50 without, ms", "p50 with, ms", "added, ms (rounds)",
		"p99 without, ms", "p99 with, ms", "without, /s", "with, /s", "with : without (rounds)",
	}}
	for _, c := range r.Creations {
		with, without := c.With.latencies(), c.Without.latencies()
		table.Add(append(c.cells(), number(without.Median()), number(with.Median()), span(c.added()), number(without.Quantile(0.99)), number(with.Quantile(0.99)),
			c.Without.sample(rate).String(), c.With.sample(rate).String(), span(c.share()))...)
	}
	return table
}

func (c Creation) cells() []string {
	return []string{whole(c.Services), strconv.Itoa(c.Policies), strconv.Itoa(c.Families), strconv.Itoa(c.Clients)}
}

// processors says which program the time of a creation goes to.
func (r Result) processors() report.Table {
	table := report.Table{Header: []string{
		"processor ms for one creation: Services there", "policies", "families", "clients", "kube-apiserver without", "with", "manager without", "with",
		"etcd without", "with", "all, with : without",
	}}
	api, managers, etcd := func(t turn) time.Duration { return t.API }, func(t turn) time.Duration { return t.Managers }, func(t turn) time.Duration { return t.Etcd }
	all := func(t turn) time.Duration { return t.API + t.Managers + t.Etcd }
	for _, c := range r.Creations {
		cells := c.cells()
		for _, of := range []func(turn) time.Duration{api, managers, etcd} {
			cells = append(cells, number(c.Without.perCall(of)), number(c.With.perCall(of)))
		}
		table.Add(append(cells, number(c.With.perCall(all)/c.Without.perCall(all)))...)
	}
	return table
}

// others has a row for each other operation.
func (r Result) others() report.Table {
	table := report.Table{Header: []string{
		fmt.Sprintf("%d clients", helpers), "calls of the webhook for each", "p50 without, ms", "p50 with, ms", "p99 without, ms", "p99 with, ms",
		"without, /s", "with, /s", "with : without (rounds)",
	}}
	for _, o := range r.Others {
		with, without := o.With.latencies(), o.Without.latencies()
		table.Add(o.Name, number(o.With.asked()), number(without.Median()), number(with.Median()), number(without.Quantile(0.99)), number(with.Quantile(0.99)),
			o.Without.sample(rate).String(), o.With.sample(rate).String(), span(o.share()))
	}
	return table
}

// replicas has a row for each number of them.
func (r Result) replicas() report.Table {
	table := report.Table{Header: []string{
		fmt.Sprintf("creation by %d clients, replicas", helpers), "large range, /s", "p50 / p99, ms", "addresses drawn", "calls handed on", "collisions",
		"/20 from 99 % on, /s", "p50 / p99, ms", "addresses drawn", "calls handed on", "collisions",
	}}
	for _, replicated := range r.Replicas {
		cells := []string{strconv.Itoa(replicated.Replicas)}
		for _, d := range []drawn{replicated.Wide, replicated.Narrow} {
			cells = append(cells, d.sample(rate).String(), quantiles(d.latencies()), whole(d.calls()), whole(int(d.HandedOn)), whole(int(d.Collisions)))
		}
		table.Add(cells...)
	}
	return table
}

// keeping shows how fast IPAddresses are written and deleted.
func (r Result) keeping() report.Table {
	table := report.Table{Header: []string{
		"addresses kept", "addresses", "in place after, s", "/s", "gone after the policy, s", "/s", "manager, CPU ms each", "kube-apiserver, CPU ms each",
	}}
	for _, row := range []struct {
		name string
		Kept
	}{{"reservation", r.Keeping.Reserved}, {"cool-down, from the first deletion on", r.Keeping.Rested}} {
		n := float64(row.Addresses)
		table.Add(row.name, whole(row.Addresses), number(row.Placed.Seconds()), number(n/row.Placed.Seconds()), number(row.Removed.Seconds()), number(n/row.Removed.Seconds()),
			number(row.Manager.Seconds()*1000/n), number(row.API.Seconds()*1000/n))
	}
	return table
}

// deletions shows what a cool-down costs.
func (r Result) deletions() report.Table {
	table := report.Table{Header: []string{
		fmt.Sprintf("deletion by %d clients", helpers), "/s", "p50 / p99, ms", "writes of IPAddresses for each, until the end of the rest",
	}}
	table.Add("without a cool-down", number(rate(r.Keeping.Plain.Calls)), quantiles(r.Keeping.Plain.Calls.Latencies), number(r.Keeping.Plain.Writes))
	table.Add("with one", number(rate(r.Keeping.Cooling.Calls)), quantiles(r.Keeping.Cooling.Calls.Latencies), number(r.Keeping.Cooling.Writes))
	return table
}

// The parts of an answer, as the micro benchmarks name them.
var parts = []string{"decided", "handled", "bytes", "https"}

// decisions has a row for each case of the micro benchmarks.
func (r Result) decisions() report.Table {
	table := report.Table{Header: []string{
		"one answer, µs", "decision and draw", "with reading the Service and its namespace", "from bytes to bytes", "through TLS, client included", "allocations, bytes to bytes",
	}}
	d := &r.Decision.Decisions
	for _, of := range d.Cases {
		cells := []string{of}
		for _, part := range parts {
			cells = append(cells, micros(d.Sample(part, of, "ns/op")).String())
		}
		table.Add(append(cells, d.Sample("bytes", of, "allocs/op").String())...)
	}
	return table
}

func micros(ns stats.Sample) (s stats.Sample) {
	for _, v := range ns {
		s = append(s, v/1000)
	}
	return s
}

// scale shows what many policies cost.
func (r Result) scale() report.Table {
	s := r.Scale
	table := report.Table{Header: []string{fmt.Sprintf("%s policies, each with a range of both families", whole(s.Policies)), ""}}
	mebibytes := func(n int64) string { return number(float64(n) / (1 << 20)) }
	table.Add("resident memory of a manager that has just started, without any, MiB", mebibytes(s.Alone))
	table.Add("with all of them, MiB", mebibytes(s.Crowded))
	table.Add("for each, KiB", number(float64(s.Crowded-s.Alone)/1024/float64(s.Policies)))
	for _, of := range r.Decision.Memory.Cases {
		table.Add("heap for "+of+", by the micro benchmark, KiB", number(r.Decision.Memory.Sample("", of, "B/policy").Median()/1024))
	}
	for _, of := range r.Decision.Compile.Cases {
		table.Add("compiling "+of+" anew, ms, after each change", number(r.Decision.Compile.Sample("", of, "ns/op").Median()/1e6))
	}
	table.Add("from the first one created until all are in force, s", number(s.Programmed.Seconds()))
	table.Add(fmt.Sprintf("creation of Services by %d clients, without webhooks, /s", helpers), s.Creation.Without.sample(rate).String())
	table.Add("with webhooks, /s", s.Creation.With.sample(rate).String())
	return table
}

// span writes what was taken round by round.
func span(s stats.Sample) string {
	if len(s) < 2 {
		return number(s.Median())
	}
	return fmt.Sprintf("%s (%s to %s)", number(s.Median()), number(s.Quantile(0)), number(s.Quantile(1)))
}

func quantiles(s stats.Sample) string { return number(s.Median()) + " / " + number(s.Quantile(0.99)) }

func number(v float64) string { return stats.Number(v) }

// whole writes what was counted.
func whole(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return stats.Number(float64(n))
}
