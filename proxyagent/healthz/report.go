package healthz

import (
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Report is what /healthz and /livez answer, with the field names of kube-proxy.
type Report struct {
	// LastUpdated is now while all is well, otherwise the last moment at which any family was programmed.
	LastUpdated time.Time `json:"lastUpdated"`
	CurrentTime time.Time `json:"currentTime"`
	// NodeEligible is nil in the answers of /livez: a node that is about to leave is alive.
	NodeEligible *bool `json:"nodeEligible,omitempty"`
	// Healthy is about the agent alone; /healthz is 200 only when NodeEligible is true too.
	Healthy bool `json:"healthy"`
	// Status is the same for each family, by its name.
	Status map[string]FamilyReport `json:"status,omitempty"`
}

// FamilyReport is the part of a Report about one family. LastUpdated is the zero time until it has been programmed.
type FamilyReport struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// progress is how far one family has come. The zero value has seen nothing.
type progress struct {
	updated time.Time
	// queued is when the oldest change came that is not in the kernel yet; zero when there is none.
	queued time.Time
}

// late reports whether a change waits for longer than it may. As in kube-proxy, a family that was never programmed is starting, not late.
func (p progress) late(now time.Time, maxQueued time.Duration) bool {
	return !p.updated.IsZero() && !p.queued.IsZero() && now.Sub(p.queued) >= maxQueued
}

// alive is the answer of /livez: nothing waits for too long.
func alive(families map[model.Family]progress, now time.Time, maxQueued time.Duration) Report {
	return report(families, now, func(p progress) bool { return !p.late(now, maxQueued) })
}

// ready is the answer of /healthz without a word about the node: everything was programmed once, and nothing waits for too long.
func ready(families map[model.Family]progress, now time.Time, maxQueued time.Duration) Report {
	return report(families, now, func(p progress) bool { return !p.updated.IsZero() && !p.late(now, maxQueued) })
}

func report(families map[model.Family]progress, now time.Time, healthy func(progress) bool) Report {
	r := Report{CurrentTime: now, Healthy: true, Status: make(map[string]FamilyReport, len(families))}
	for f, p := range families {
		ok := healthy(p)
		r.Status[f.String()] = FamilyReport{LastUpdated: p.updated, Healthy: ok}
		r.Healthy = r.Healthy && ok
		if p.updated.After(r.LastUpdated) {
			r.LastUpdated = p.updated
		}
	}
	return r
}
