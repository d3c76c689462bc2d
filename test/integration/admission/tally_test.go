package admission_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// outcome is what became of a request for a Service.
type outcome string

const (
	created   outcome = "created"
	collided  outcome = "collided" // an address was asked for that somebody has already
	full      outcome = "full"     // nothing was left, says the API server
	refused   outcome = "refused"  // by a policy
	gated     outcome = "gated"    // by a webhook that could not be reached: it failed closed
	otherwise outcome = "other"
)

// outcomeOf reads the API server's answer. A Service whose author chose no address can collide only with what we chose.
func outcomeOf(err error) outcome {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case err == nil:
		return created
	case strings.Contains(text, "already allocated"):
		return collided
	case strings.Contains(text, "range is full"):
		return full
	case apierrors.IsForbidden(err) && strings.Contains(text, "ServiceCIDRPolicy"):
		return refused
	case strings.Contains(text, "failed calling webhook"):
		return gated
	default:
		return otherwise
	}
}

// tally counts the outcomes of many requests and keeps how long those took that succeeded. The zero tally is empty; its methods may be
// called concurrently.
type tally struct {
	mu     sync.Mutex
	counts map[outcome]int
	first  map[outcome]error // an example of each failure
	took   stats.Sample      // milliseconds
}

func (t *tally) book(took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts, t.first = map[outcome]int{}, map[outcome]error{}
	}
	kind := outcomeOf(err)
	t.counts[kind]++
	if err == nil {
		t.took = append(t.took, float64(took)/float64(time.Millisecond))
	} else if t.first[kind] == nil {
		t.first[kind] = err
	}
}

func (t *tally) count(kind outcome) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[kind]
}

// failures are the counts of all that did not succeed: empty is good.
func (t *tally) failures() map[outcome]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	failures := maps.Clone(t.counts)
	delete(failures, created)
	return failures
}

// slowest is the longest that a creation took.
func (t *tally) slowest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.took) == 0 {
		return 0
	}
	return time.Duration(slices.Max(t.took) * float64(time.Millisecond))
}

// String is for the report of a spec.
func (t *tally) String() string {
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

// The answers of a real API server, word for word.
func TestOutcomeOf(t *testing.T) {
	status := func(code int32, reason metav1.StatusReason, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
	}
	for name, tc := range map[string]struct {
		err  error
		want outcome
	}{
		"no complaint": {nil, created},
		"the address has an owner": {status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
			`Service "web" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.9"]: failed to allocate IP 10.96.0.9: provided IP is already allocated`), collided},
		"the range has no address left": {status(http.StatusInternalServerError, metav1.StatusReasonInternalError,
			`Internal error occurred: failed to allocate a serviceIP: range is full`), full},
		"a policy says no": {status(http.StatusForbidden, metav1.StatusReasonForbidden,
			`admission webhook "service.clusterip-operator.io" denied the request: ServiceCIDRPolicy "a": no free address is left`), refused},
		"the webhook was demanded": {status(http.StatusInternalServerError, metav1.StatusReasonInternalError,
			`Internal error occurred: failed calling webhook "service.clusterip-operator.io": connection refused`), gated},
		"somebody else says no": {status(http.StatusForbidden, metav1.StatusReasonForbidden, `services is forbidden: User "eve" cannot create`), otherwise},
		"nobody answers":        {errors.New("connection refused"), otherwise},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcomeOf(tc.err); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTallyKeepsAnExampleOfEachFailure(t *testing.T) {
	var got tally
	got.book(3*time.Millisecond, nil)
	got.book(5*time.Millisecond, nil)
	got.book(time.Hour, errors.New("first"))
	got.book(time.Hour, errors.New("second"))

	if diff := cmp.Diff(map[outcome]int{otherwise: 2}, got.failures()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got.count(created) != 2 || got.slowest() != 5*time.Millisecond {
		t.Errorf("%d created, slowest %s; want 2, 5ms", got.count(created), got.slowest())
	}
	const want = "2 created; 2 other (such as: first); p50 4.00 ms, p99 5.00 ms, slowest 5.00 ms"
	if got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
}
