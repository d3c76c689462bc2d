package admission

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Probe tells a client whether the API server reaches this replica. The client creates, in a dry
// run, a headless Service, which needs no address, with the annotation v1alpha1.AnnotationProbe,
// and gets a warning that only this webhook writes. Safe for concurrent use; a nil Probe is silent.
type Probe struct {
	// Replica and Version are told to each client that asks.
	Replica, Version string

	first atomic.Pointer[time.Time]
}

// Reached is what the answer to a probe says.
type Reached struct {
	// Replica that has answered, by the name of its pod, and its version.
	Replica string `json:"replica"`
	Version string `json:"version"`
	// Since is when an API server first reached this replica.
	Since time.Time `json:"since"`
}

// probeMark begins the warning. An API server cuts warnings at 256 characters.
const probeMark = v1alpha1.AnnotationProbe + " "

// String is the warning.
func (r Reached) String() string {
	text, _ := json.Marshal(r) // strings and a time
	return probeMark + string(text)
}

// ParseReached reads a warning; false if it is another one.
func ParseReached(warning string) (r Reached, ok bool) {
	text, ok := strings.CutPrefix(warning, probeMark)
	return r, ok && json.Unmarshal([]byte(text), &r) == nil
}

// asked notes that an API server has reached this replica.
func (p *Probe) asked(now time.Time) {
	if p != nil && p.first.Load() == nil {
		p.first.CompareAndSwap(nil, &now)
	}
}

// answer returns the warning; false if the request is no probe.
func (p *Probe) answer(r request) (warning string, ok bool) {
	_, marked := r.service.Metadata.Annotations[v1alpha1.AnnotationProbe]
	if p == nil || !marked || !r.dryRun {
		return "", false
	}
	return Reached{Replica: p.Replica, Version: p.Version, Since: p.first.Load().UTC().Truncate(time.Second)}.String(), true
}
