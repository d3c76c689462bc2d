package steering

import (
	"fmt"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
)

// Targets.
const (
	targetAdded    = 2.0  // ms at p50
	targetShare    = 0.9  // of the rate without webhooks
	targetDecision = 20.0 // µs
	targetPolicies = "policies=1000/"
)

// Notes says which targets were reached: for creations one by one, because they differ; the worst first would hide how.
func (r Result) Notes() (notes []string) {
	for _, c := range r.Creations {
		where := fmt.Sprintf("%s Services, %d policies, families: %d, clients: %d", whole(c.Services), c.Policies, c.Families, c.Clients)
		added, share := c.added().Median(), c.share().Median()
		notes = append(notes,
			report.Target(added < targetAdded && share > targetShare, "less than 2 ms more at p50, and at least 90 % of the rate, with "+where,
				fmt.Sprintf("%s ms, %.0f %%", number(added), 100*share)))
	}
	return append(notes, r.decisionNotes()...)
}

func (r Result) decisionNotes() (notes []string) {
	d := &r.Decision.Decisions
	for _, of := range d.Cases {
		if len(of) < len(targetPolicies) || of[:len(targetPolicies)] != targetPolicies {
			continue
		}
		took := micros(d.Sample("decided", of, "ns/op")).Median()
		notes = append(notes, report.Target(took < targetDecision, "a decision in less than 20 µs, "+of, number(took)+" µs"))
	}
	return notes
}
