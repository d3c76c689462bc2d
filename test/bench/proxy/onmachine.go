package proxy

import (
	"fmt"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// OnMachine is what IPVS has measured.
type OnMachine struct{ Result }

// mostOfIPVS is the part of kube-proxy's time that a cold start may take.
const mostOfIPVS = 0.5

// Tables shows starts and changes.
func (r OnMachine) Tables() []report.Table {
	messages := report.Table{Header: []string{"one EndpointSlice change", "messages to IPVS"}}
	r.each(func(c *Case, who Contender, f *Figures) {
		if f.Messages > 0 {
			messages.Add(c.Shape.String()+", "+who.Name, stats.Count(f.Messages))
		}
	})
	return []report.Table{
		r.compare("cold start to rules, s", (*Figures).cold), r.compare("one EndpointSlice change to rules, ms", (*Figures).change), r.ownWords(), messages,
	}
}

// Notes says which targets were reached.
func (r OnMachine) Notes() (all []string) {
	few := 0
	for i := range r.Cases {
		c := &r.Cases[i]
		ours, theirs := c.of(oursIPVS), c.of(theirsIPVS)
		if x, y := ours.cold(), theirs.cold(); x.known && y.known {
			goal := fmt.Sprintf("cold start with %s: ours at most half of the time of kube-proxy", c.Shape)
			all = append(all, report.Target(!x.bound && x.value <= mostOfIPVS*y.value, goal, y.over(x)))
		}
		if c.Shape.Family != model.IPv4 || ours.Messages == 0 {
			continue
		}
		if few == 0 {
			few = ours.Messages
		} else {
			goal := fmt.Sprintf("messages for one change: with %s as many as with fewer Services", c.Shape)
			all = append(all, report.Target(ours.Messages == few, goal, stats.Count(ours.Messages)))
		}
	}
	return all
}
