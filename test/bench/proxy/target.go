package proxy

import (
	"fmt"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Where the targets hold.
const (
	targetSize = 10_000
	flatFrom   = 1_000
	flatTo     = 30_000
)

// Targets of ours.
const (
	mostOtherAdded = 3    // µs to another address
	mostGrowth     = 1.5  // times as much in the large cluster as in the small one
	mostMixed      = 1.3  // times as much in a mixed cluster
	mostCold       = 3    // s, with nftables in the large cluster
	mostChange     = 10   // ms, with nftables
	mostOfMany     = 5    // ms, with nftables, where a Service has many endpoints
	mostMemory     = 0.5  // of kube-proxy's
	mostIdle       = 0.01 // of one processor
)

// advantages are how many times sooner ours has to be than each of kube-proxy's modes.
var advantages = []struct {
	key          string
	cold, change float64
}{{theirsLegacy, 3, 4}, {theirsNFT, 30, 10}, {theirsNFTable, 10, 200}}

// addition is the µs that ours may add to a new connection, and how many times less than its peer.
type addition struct{ most, less float64 }

var additions = map[string]addition{oursLegacy: {5, 5}, oursNFT: {5, 5}, oursNative: {2, 1}}

// Targets of ours with socketLB, beside connections that go to an endpoint.
const (
	mostSocketAdded = 1.0  // µs, p50
	mostSocketTail  = 1.1  // times p99
	leastRate       = 0.98 // of requests that are answered in a second
	mostSocketSync  = 1    // ms, for a change
)

// pairs are ours with the modes of kube-proxy that are their peers.
func pairs() (all [][2]Contender) {
	for _, them := range Contenders {
		if them.Peer != "" {
			all = append(all, [2]Contender{contender(them.Peer), them})
		}
	}
	return all
}

// notes say which targets were reached, in which kind of cluster.
type notes struct {
	all   []string
	where string
}

func (n *notes) add(reached bool, measured, goal string, args ...any) {
	n.all = append(n.all, report.Target(reached, n.where+fmt.Sprintf(goal, args...), measured))
}

// Notes says which targets were reached. It is silent about what was not measured.
func (r Result) Notes() []string {
	var n notes
	for _, mixed := range []bool{false, true} {
		if c := r.find(targetSize, mixed); c != nil {
			n.compare(c)
		}
		small := r.find(flatFrom, mixed)
		if mixed {
			small = r.find(targetSize, mixed)
		}
		if large := r.find(flatTo, mixed); small != nil && large != nil {
			for _, pair := range pairs() {
				n.growth(small, large, pair[0])
			}
		}
		if c := r.find(flatTo, mixed); c != nil {
			n.most("cold start, s, "+c.Shape.String(), c.of(oursNative).cold(), mostCold)
		}
		n.where = "mixed: "
	}
	n.where = ""
	if plain, mixed := r.find(targetSize, false), r.find(targetSize, true); plain != nil && mixed != nil {
		n.mixture(plain, mixed)
	}
	if c := r.findShape(Shape{Family: model.IPv4, Services: 1, Endpoints: 1_000}); c != nil {
		n.most("one of 1,000 endpoints of one Service, ms", c.of(oursNative).change(), mostOfMany)
	}
	r.each(func(_ *Case, who Contender, f *Figures) {
		if who.Ours && f.Clients > 0 {
			n.add(f.Kept == f.Clients, stats.Count(f.Kept), "%s keeps the affinity of all of %s clients", who.Name, stats.Count(f.Clients))
		}
	})
	return n.all
}

// compare looks at a cluster with all of ours and their peers.
func (n *notes) compare(c *Case) {
	n.sooner(c)
	n.most("one change, ms", c.of(oursNative).change(), mostChange)
	for _, look := range []func(c *Case, us, them Contender){n.added, n.used, n.busy} {
		for _, pair := range pairs() {
			look(c, pair[0], pair[1])
		}
	}
}

// most is about ours in mode nftables alone.
func (n *notes) most(what string, x reading, most float64) {
	if x.known {
		n.add(!x.bound && x.value <= most, x.String(), "%s: %s at most %s", what, contender(oursNative).Name, stats.Number(most))
	}
}

// mixture compares what ours with iptables adds in a mixed cluster and in one with only ClusterIPs.
func (n *notes) mixture(plain, mixed *Case) {
	for _, key := range []string{oursLegacy, oursNFT} {
		before, after := plain.of(key).Service, mixed.of(key).Service
		if len(before) > 0 && len(after) > 0 {
			times := more(after, mixed.Bare.Service, 0.5) / more(before, plain.Bare.Service, 0.5)
			n.add(times <= mostMixed, stats.Number(times), "%s adds at most %s times as much in a mixed cluster", contender(key).Name, stats.Number(mostMixed))
		}
	}
}

// sooner compares starts and changes.
func (n *notes) sooner(c *Case) {
	for _, a := range advantages {
		them := contender(a.key)
		us := contender(them.Peer)
		for _, goal := range []struct {
			what  string
			of    func(*Figures) reading
			times float64
		}{{"cold start", (*Figures).cold, a.cold}, {"one EndpointSlice change", (*Figures).change, a.change}} {
			if theirs, ours := goal.of(c.of(them.Key)), goal.of(c.of(us.Key)); theirs.known && ours.known {
				n.add(!ours.bound && theirs.value >= goal.times*ours.value, theirs.over(ours),
					"%s: %s at least %s times sooner than %s", goal.what, us.Name, stats.Number(goal.times), them.Name)
			}
		}
	}
}

// added looks at what a proxy adds to a new connection.
func (n *notes) added(c *Case, us, them Contender) {
	f := c.of(us.Key)
	if len(f.Service) == 0 {
		return
	}
	service, other := more(f.Service, c.Bare.Service, 0.5), more(f.Other, c.Bare.Other, 0.5)
	goal := additions[us.Key]
	n.add(service <= goal.most, stats.Number(service), "%s adds at most %g µs to a connection to a Service, p50", us.Name, goal.most)
	n.add(other <= mostOtherAdded, stats.Number(other), "%s adds at most %d µs to another connection, p50", us.Name, mostOtherAdded)
	if theirs := c.of(them.Key).Service; len(theirs) > 0 {
		more := more(theirs, c.Bare.Service, 0.5)
		n.add(more >= goal.less*service, ratio(more, service), "%s adds at least %g times less than %s", us.Name, goal.less, them.Name)
	}
}

// used looks at memory and processor time.
func (n *notes) used(c *Case, us, them Contender) {
	f, theirs := c.of(us.Key), c.of(them.Key)
	if !f.Quiet {
		return
	}
	share := f.CPU.Minutes()
	n.add(share <= mostIdle, fmt.Sprintf("%.2f %%", 100*share), "%s uses at most 1 %% of a processor in a quiet minute", us.Name)
	if theirs.Quiet {
		part := float64(f.RSS) / float64(theirs.RSS)
		n.add(part <= mostMemory, fmt.Sprintf("%.0f %%", 100*part), "%s needs at most half of the memory of %s", us.Name, them.Name)
	}
}

// busy compares what connections take while endpoints change.
func (n *notes) busy(c *Case, us, them Contender) {
	mine, theirs := c.of(us.Key).Busy, c.of(them.Key).Busy
	if len(mine) > 0 && len(theirs) > 0 {
		p99, other := mine.Quantile(0.99), theirs.Quantile(0.99)
		n.add(p99 <= other, stats.Number(p99)+" and "+stats.Number(other)+" µs",
			"while endpoints change, p99 of new connections through %s is not worse than through %s", us.Name, them.Name)
	}
}

// socket looks at what is translated at connect(), beside connections through no rule at all, and
// beside those to endpoints past the same rules.
func (n *notes) socket(c *Case) {
	f, name := c.of(oursSocket), c.Shape.String()+": "+contender(oursSocket).Name
	for _, direct := range []struct {
		what  string
		took  stats.Sample
		rates Rates
	}{{"no rule", c.Bare.None, c.Bare.Rates}, {"an endpoint past the same rules", f.Other, f.ToOther}} {
		added, tail := more(f.Service, direct.took, 0.5), f.Service.Quantile(0.99)/direct.took.Quantile(0.99)
		n.add(added <= mostSocketAdded, stats.Number(added), "%s adds at most %g µs to a new connection over %s, p50", name, mostSocketAdded, direct.what)
		n.add(tail <= mostSocketTail, percent(tail-1), "%s: p99 is at most 10 %% above that of %s", name, direct.what)
		for _, x := range []struct {
			how      string
			ours, of stats.Sample
		}{{"on one connection", f.ToService.One, direct.rates.One}, {"each on a connection of its own", f.ToService.Each, direct.rates.Each}} {
			rate := share(x.ours, x.of)
			n.add(rate >= leastRate, percent(rate), "%s: requests %s at least 98 %% of those through %s", name, x.how, direct.what)
		}
	}
	t := f.Tracked
	n.add(t.Service <= t.Other && t.Translated == 0, stats.Count(t.Service)+" and "+stats.Count(t.Other),
		"%s: as many tracked connections as of direct ones, none of them translated", name)
	n.add(f.Syncs.Median() <= mostSocketSync, stats.Number(f.Syncs.Median()), "%s: a sync of one change within %d ms", name, mostSocketSync)
}

// growth compares a large cluster with a small one.
func (n *notes) growth(small, large *Case, us Contender) {
	before, after := small.of(us.Key).Service, large.of(us.Key).Service
	if len(before) > 0 && len(after) > 0 {
		growth := more(after, large.Bare.Service, 0.5) / more(before, small.Bare.Service, 0.5)
		n.add(growth <= mostGrowth, stats.Number(growth), "%s adds at most %s times as much with %s Services as with %s",
			us.Name, stats.Number(mostGrowth), stats.Count(large.Shape.Services), stats.Count(small.Shape.Services))
	}
}

func contender(key string) Contender {
	return Contenders[slices.IndexFunc(Contenders, func(c Contender) bool { return c.Key == key })]
}
