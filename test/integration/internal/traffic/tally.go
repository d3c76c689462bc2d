package traffic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Outcome is what became of a request for a Service.
type Outcome string

// What may become of a request.
const (
	Created  Outcome = "created"
	Collided Outcome = "collided" // an address was asked for that another Service has already
	Full     Outcome = "full"     // no address was left, says the API server
	Refused  Outcome = "refused"  // by our webhook, or by the API server for a policy
	Gated    Outcome = "gated"    // by a webhook that could not be reached: it failed closed
	Other    Outcome = "other"
)

// OutcomeOf reads the API server's answer. Without a wish, a Service collides only with our choice.
func OutcomeOf(err error) Outcome {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case err == nil:
		return Created
	// The operator's webhook speaks in the API server's words.
	case strings.Contains(text, "denied the request: ") && apierrors.IsForbidden(err):
		return Refused
	case strings.Contains(text, "already allocated"):
		return Collided
	case strings.Contains(text, "range is full"):
		return Full
	case strings.Contains(text, "ServiceCIDRPolicy") && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)):
		return Refused
	case strings.Contains(text, "failed calling webhook"):
		return Gated
	default:
		return Other
	}
}

// Tally counts the outcomes of many requests and how long the successful ones took. The zero Tally
// is empty; its methods may be called concurrently.
type Tally struct {
	mu     sync.Mutex
	counts map[Outcome]int
	first  map[Outcome]error // an example of each failure
	took   stats.Sample      // milliseconds
}

// Add counts an answer.
func (t *Tally) Add(took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts, t.first = map[Outcome]int{}, map[Outcome]error{}
	}
	kind := OutcomeOf(err)
	t.counts[kind]++
	if err == nil {
		t.took = append(t.took, float64(took)/float64(time.Millisecond))
	} else if t.first[kind] == nil {
		t.first[kind] = err
	}
}

// Drop forgets the answers of one kind.
func (t *Tally) Drop(kind Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.counts, kind)
	delete(t.first, kind)
}

// Count returns how many answers were of one kind.
func (t *Tally) Count(kind Outcome) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[kind]
}

// Failures are the counts of all that did not succeed: empty is good.
func (t *Tally) Failures() map[Outcome]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	failures := maps.Clone(t.counts)
	delete(failures, Created)
	return failures
}

// Slowest is the longest that a request took that succeeded.
func (t *Tally) Slowest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.took) == 0 {
		return 0
	}
	return time.Duration(slices.Max(t.took) * float64(time.Millisecond))
}

// Quantile is within how long that share of the requests was answered that succeeded.
func (t *Tally) Quantile(q float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Duration(t.took.Quantile(q) * float64(time.Millisecond))
}

// String is for the report of a spec.
func (t *Tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(t.counts)) {
		part := fmt.Sprintf("%d %s", t.counts[kind], kind)
		if err := t.first[kind]; err != nil {
			part += fmt.Sprintf(" (such as: %v)", err)
		}
		parts = append(parts, part)
	}
	if len(t.took) > 0 {
		parts = append(parts, fmt.Sprintf("p50 %s ms, p99 %s ms, slowest %s ms",
			stats.Number(t.took.Median()), stats.Number(t.took.Quantile(0.99)), stats.Number(slices.Max(t.took))))
	}
	return strings.Join(parts, "; ")
}
