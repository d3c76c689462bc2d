package proxy

import (
	"fmt"
	"slices"

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
	mostAdded      = 5    // µs to a Service
	mostOtherAdded = 3    // µs to another address
	leastLessAdded = 5    // times less than kube-proxy of the same variant
	mostGrowth     = 1.5  // times as much in the large cluster as in the small one
	mostMemory     = 0.5  // of kube-proxy's
	mostIdle       = 0.01 // of one processor
)

// advantages are how many times sooner ours has to be than each of kube-proxy's modes.
var advantages = []struct {
	key          string
	cold, change float64
}{{theirsLegacy, 3, 4}, {theirsNFT, 30, 10}, {theirsNFTable, 10, 40}}

// Notes says which targets were reached. It is silent about what was not measured.
func (r Result) Notes() (notes []string) {
	c := r.find(targetSize, endpoints)
	if c != nil {
		notes = slices.Concat(r.sooner(c), r.lighter(c), r.frugal(c), r.steady(c))
	}
	notes = append(notes, r.flat()...)
	return append(notes, r.faithful()...)
}

// sooner compares starts and changes.
func (r Result) sooner(c *Case) (notes []string) {
	for _, a := range advantages {
		them := contender(a.key)
		us := contender(them.Peer)
		for _, goal := range []struct {
			what  string
			of    func(*Figures) reading
			times float64
		}{{"cold start", (*Figures).cold, a.cold}, {"one EndpointSlice change", (*Figures).change, a.change}} {
			theirs, ours := goal.of(c.of(them.Key)), goal.of(c.of(us.Key))
			if theirs.known && ours.known {
				text := fmt.Sprintf("%s: %s at least %s times sooner than %s", goal.what, us.Name, stats.Number(goal.times), them.Name)
				notes = append(notes, report.Target(!ours.bound && theirs.value >= goal.times*ours.value, text, theirs.over(ours)))
			}
		}
	}
	return notes
}

// lighter looks at what a proxy adds to a new connection.
func (r Result) lighter(c *Case) (notes []string) {
	for _, us := range ours() {
		f := c.of(us.Key)
		if len(f.Service) == 0 {
			continue
		}
		service, other := more(f.Service, c.Bare.Service, 0.5), more(f.Other, c.Bare.Other, 0.5)
		toService := fmt.Sprintf("%s adds at most %d µs to a connection to a Service, p50", us.Name, mostAdded)
		toOther := fmt.Sprintf("%s adds at most %d µs to another connection, p50", us.Name, mostOtherAdded)
		notes = append(notes, report.Target(service <= mostAdded, toService, stats.Number(service)),
			report.Target(other <= mostOtherAdded, toOther, stats.Number(other)))
		if them := rival(us); len(c.of(them.Key).Service) > 0 {
			theirs := more(c.of(them.Key).Service, c.Bare.Service, 0.5)
			goal := fmt.Sprintf("%s adds at least %d times less than %s", us.Name, leastLessAdded, them.Name)
			notes = append(notes, report.Target(theirs >= leastLessAdded*service, goal, ratio(theirs, service)))
		}
	}
	return notes
}

// flat compares a large cluster with a small one.
func (r Result) flat() (notes []string) {
	small, large := r.find(flatFrom, endpoints), r.find(flatTo, endpoints)
	if small == nil || large == nil {
		return nil
	}
	for _, us := range ours() {
		before, after := small.of(us.Key).Service, large.of(us.Key).Service
		if len(before) > 0 && len(after) > 0 {
			growth := more(after, large.Bare.Service, 0.5) / more(before, small.Bare.Service, 0.5)
			goal := fmt.Sprintf("%s adds at most %s times as much with %s Services as with %s",
				us.Name, stats.Number(mostGrowth), whole(flatTo), whole(flatFrom))
			notes = append(notes, report.Target(growth <= mostGrowth, goal, stats.Number(growth)))
		}
	}
	return notes
}

// frugal looks at memory and processor time.
func (r Result) frugal(c *Case) (notes []string) {
	for _, us := range ours() {
		f := c.of(us.Key)
		if !f.Quiet {
			continue
		}
		share := f.CPU.Minutes()
		goal := us.Name + " uses at most 1 % of a processor in a quiet minute"
		notes = append(notes, report.Target(share <= mostIdle, goal, fmt.Sprintf("%.2f %%", 100*share)))
		if theirs := c.of(rival(us).Key); theirs.Quiet {
			part := float64(f.RSS) / float64(theirs.RSS)
			goal := fmt.Sprintf("%s needs at most half of the memory of %s", us.Name, rival(us).Name)
			notes = append(notes, report.Target(part <= mostMemory, goal, fmt.Sprintf("%.0f %%", 100*part)))
		}
	}
	return notes
}

// steady compares what connections take while endpoints change.
func (r Result) steady(c *Case) (notes []string) {
	for _, us := range ours() {
		mine, theirs := c.of(us.Key).Busy, c.of(rival(us).Key).Busy
		if len(mine) > 0 && len(theirs) > 0 {
			goal := fmt.Sprintf("while endpoints change, p99 of new connections through %s is not worse than through %s", us.Name, rival(us).Name)
			measured := stats.Number(mine.Quantile(0.99)) + " and " + stats.Number(theirs.Quantile(0.99)) + " µs"
			notes = append(notes, report.Target(mine.Quantile(0.99) <= theirs.Quantile(0.99), goal, measured))
		}
	}
	return notes
}

// faithful looks at affinity.
func (r Result) faithful() (notes []string) {
	r.each(func(_ *Case, who Contender, f *Figures) {
		if who.Ours && f.Clients > 0 {
			goal := fmt.Sprintf("%s keeps the affinity of all of %s clients", who.Name, whole(f.Clients))
			notes = append(notes, report.Target(f.Kept == f.Clients, goal, whole(f.Kept)))
		}
	})
	return notes
}

func contender(key string) Contender {
	i := slices.IndexFunc(Contenders, func(c Contender) bool { return c.Key == key })
	return Contenders[i]
}

func ours() []Contender { return []Contender{contender(oursLegacy), contender(oursNFT)} }

// rival is kube-proxy's iptables mode with the same variant.
func rival(us Contender) Contender {
	if us.Key == oursLegacy {
		return contender(theirsLegacy)
	}
	return contender(theirsNFT)
}
