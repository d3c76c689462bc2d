package micro

import (
	"fmt"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// The targets, and the cases that they are about.
const (
	flat        = 2.0  // slowest to fastest fill of one range
	limit       = 1000 // ns
	limited     = "prefix=16"
	advantage   = 1000
	advantaged  = "prefix=12/used=99.99"
	overPeer    = "ipallocator"
	millionText = "used=1M"
)

// Notes says which targets were reached by what was measured; cases that are missing have no note.
func (o *Output) Notes() []string {
	var notes []string
	if worst := o.steepest(); worst > 0 {
		notes = append(notes, report.Target(worst <= flat, "flat within a factor of 2 from empty to 99.99 % full",
			fmt.Sprintf("%s at most", stats.Number(worst))))
	}
	if slowest := o.slowest(limited); slowest > 0 {
		notes = append(notes, report.Target(slowest < limit, "less than 1 microsecond at /16", stats.Number(slowest)+" ns at most"))
	}
	if ratio := o.Sample(overPeer, advantaged, time).Median() / o.Sample(Ours, advantaged, time).Median(); ratio > 0 {
		notes = append(notes, report.Target(ratio >= advantage, "1,000 times ipallocator at 99.99 % of a /12", stats.Number(ratio)))
	}
	return notes
}

// steepest returns the largest ratio of two fills of one range.
func (o *Output) steepest() (worst float64) {
	ranges := map[string]stats.Sample{}
	for _, of := range o.Cases {
		prefix, used, _ := strings.Cut(of, "/")
		if ours := o.Sample(Ours, of, time); len(ours) > 0 && used != millionText {
			ranges[prefix] = append(ranges[prefix], ours.Median())
		}
	}
	for _, medians := range ranges {
		worst = max(worst, medians.Quantile(1)/medians.Quantile(0))
	}
	return worst
}

// slowest returns the largest median of ours in the cases of a range.
func (o *Output) slowest(prefix string) (ns float64) {
	for _, of := range o.Cases {
		if ours := o.Sample(Ours, of, time); len(ours) > 0 && strings.HasPrefix(of, prefix+"/") {
			ns = max(ns, ours.Median())
		}
	}
	return ns
}
