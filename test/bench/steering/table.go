package steering

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Tables shows creations, processor times, other operations, replicas, kept addresses, decisions.
func (r Result) Tables() []report.Table {
	return []report.Table{r.creations(), r.processors(), r.others(), r.replicas(), r.keeping(), r.deletions(), r.decisions(), r.scale()}
}

// creations has a row for each combination.
func (r Result) creations() report.Table {
	table := report.Table{Header: []string{
		"creation: Services there", "policies", "families", "clients", "p50 without, ms", "p50 with, ms", "added, ms (rounds)", "added by the least webhook",
		"p99 without, ms", "p99 with, ms", "without, /s", "with, /s", "with : without (rounds)",
	}}
	for _, c := range r.Creations {
		peer := "–"
		if c.Clients == 1 {
			peer = c.leastAdded().Range()
		}
		table.Add(append(c.where(), c.cells(c.latencies(), c.latencies().added().Range(), peer)...)...)
	}
	return table
}

// where says where it was measured.
func (c Creation) where() []string {
	return []string{stats.Count(c.Services), strconv.Itoa(c.Policies), strconv.Itoa(c.Families), strconv.Itoa(c.Clients)}
}

// cells are p50, whatever else, p99, and rates.
func (c comparison) cells(of comparison, more ...string) []string {
	with, without := of.With.Latencies(), of.Without.Latencies()
	cells := append([]string{stats.Number(without.Median()), stats.Number(with.Median())}, more...)
	return append(cells, stats.Number(without.Quantile(0.99)), stats.Number(with.Quantile(0.99)),
		c.Without.Rates().String(), c.With.Rates().String(), c.share().Range())
}

// processors says which program the time of a creation goes to.
func (r Result) processors() report.Table {
	table := report.Table{Header: []string{
		"processor ms for one creation: Services there", "policies", "families", "clients", "kube-apiserver without", "with", "manager without", "with",
		"etcd without", "with", "all, with : without",
	}}
	for _, c := range r.Creations {
		with, without, cells := c.With, c.Without, c.where()
		for _, of := range [][2]time.Duration{{without.API, with.API}, {without.Managers, with.Managers}, {without.Etcd, with.Etcd}} {
			cells = append(cells, stats.Number(without.perCall(of[0])), stats.Number(with.perCall(of[1])))
		}
		all := with.perCall(with.API+with.Managers+with.Etcd) / without.perCall(without.API+without.Managers+without.Etcd)
		table.Add(append(cells, stats.Number(all))...)
	}
	return table
}

// others has a row for each Other operation.
func (r Result) others() report.Table {
	table := report.Table{Header: []string{
		fmt.Sprintf("%d clients", helpers), "calls of the webhook for each", "p50 without, ms", "p50 with, ms", "p99 without, ms", "p99 with, ms",
		"without, /s", "with, /s", "with : without (rounds)",
	}}
	for _, o := range r.Others {
		table.Add(append([]string{o.Name, stats.Number(o.With.asked())}, o.cells(o.comparison)...)...)
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
			cells = append(cells, d.Rates().String(), d.Latencies().Tail(), stats.Count(d.Calls()), stats.Count(int(d.HandedOn)),
				stats.Count(int(d.Collisions)))
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
	}{{"reservation", r.Keeping.Reserved}, {"cool-down, from the first deletion on", r.Keeping.Cooled}} {
		n := float64(row.Addresses)
		table.Add(row.name, stats.Count(row.Addresses), stats.Seconds(row.Placed), stats.Number(n/row.Placed.Seconds()),
			stats.Seconds(row.Removed), stats.Number(n/row.Removed.Seconds()),
			stats.Number(row.Manager.Seconds()*1000/n), stats.Number(row.API.Seconds()*1000/n))
	}
	return table
}

// deletions shows what a cool-down costs.
func (r Result) deletions() report.Table {
	table := report.Table{Header: []string{
		fmt.Sprintf("deletion by %d clients", helpers), "/s", "p50 / p99, ms", "writes of IPAddresses for each, until the end of the cool-down",
	}}
	plain, cooling := r.Keeping.Plain, r.Keeping.Cooling
	table.Add("without a cool-down", stats.Number(plain.PerSecond()), plain.Latencies.Tail(), stats.Number(plain.Writes))
	table.Add("with one", stats.Number(cooling.PerSecond()), cooling.Latencies.Tail(), stats.Number(cooling.Writes))
	return table
}

// The parts of an answer, as the micro benchmarks name them.
var parts = []string{"decided", "handled", "bytes", "https"}

// decisions has a row for each case of the micro benchmarks.
func (r Result) decisions() report.Table {
	table := report.Table{Header: []string{
		"one answer, µs", "decision and draw", "with reading the Service and its namespace", "from bytes to bytes",
		"through TLS, client included", "allocations, bytes to bytes",
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
	table := report.Table{Header: []string{fmt.Sprintf("%s policies, each with a range of both families", stats.Count(s.Policies)), ""}}
	table.Add("resident memory of a manager that has just started, without any, MiB", stats.MiB(s.Alone))
	table.Add("with all of them, MiB", stats.MiB(s.Crowded))
	table.Add("for each, KiB", stats.Number(float64(s.Crowded-s.Alone)/1024/float64(s.Policies)))
	for _, of := range r.Decision.Compile.Cases {
		table.Add("compiling "+of+" anew, ms, after each change", stats.Number(r.Decision.Compile.Sample("", of, "ns/op").Median()/1e6))
	}
	table.Add("from the first range created until all are ready, s", stats.Seconds(s.Ready))
	table.Add("from the first policy created until all are, s", stats.Seconds(s.Created))
	table.Add("until Services go by them, s", stats.Seconds(s.Steering))
	table.Add("until the status of each says so, s", stats.Seconds(s.Programmed))
	table.Add(fmt.Sprintf("creation of Services by %d clients, without webhooks, /s", helpers), s.Creation.Without.Rates().String())
	table.Add("with webhooks, /s", s.Creation.With.Rates().String())
	return table
}

// Targets.
const (
	targetAdded    = 2.0  // ms at p50
	targetShare    = 0.9  // of the rate without webhooks
	targetDecision = 20.0 // µs
	targetPolicies = "policies=1000/"
)

// Notes says which targets were reached: creations one by one, for the worst would hide the rest.
func (r Result) Notes() (notes []string) {
	for _, c := range r.Creations {
		added, share := c.latencies().added().Median(), c.share().Median()
		notes = append(notes,
			report.Target(added < targetAdded && share > targetShare, "less than 2 ms more at p50, and at least 90 % of the rate, with "+c.String(),
				fmt.Sprintf("%s ms, %.0f %%", stats.Number(added), 100*share)))
	}
	d := &r.Decision.Decisions
	for _, of := range d.Cases {
		if took := d.Sample("decided", of, "ns/op").Median() / 1000; strings.HasPrefix(of, targetPolicies) {
			notes = append(notes, report.Target(took < targetDecision, "a decision in less than 20 µs, "+of, stats.Number(took)+" µs"))
		}
	}
	return notes
}
