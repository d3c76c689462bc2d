package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/internal/metrics"
)

// Budget is a review's time here, from first byte to answer, unless [Options] say otherwise: with
// config/webhook the API server waits for two seconds.
const Budget = 1700 * time.Millisecond

// TimeLeftHeader is the header by which a follower tells the leader how many milliseconds a request
// has left. It only shortens the budget, so it does no harm, whichever client sends it.
const TimeLeftHeader = "Clusterip-Operator-Time-Left"

// SetTimeLeft writes how much time a request has left, rounded up: the leader is to give up after
// its follower, which would take the earlier end for a leader that fails.
func SetTimeLeft(h http.Header, left time.Duration) {
	ms := (max(left, 0) + time.Millisecond - 1) / time.Millisecond
	h.Set(TimeLeftHeader, strconv.FormatInt(int64(ms), 10))
}

// within is the time that a request has here: what its sender has left, if that is less than the
// budget. A value that is no number, or is repeated, counts as none.
func within(budget time.Duration, h http.Header) time.Duration {
	values := h.Values(TimeLeftHeader)
	if len(values) != 1 {
		return budget
	}
	ms, err := strconv.ParseUint(values[0], 10, 16)
	if err != nil {
		return budget
	}
	return min(time.Duration(ms)*time.Millisecond, budget) //nolint:gosec // 16 bits
}

const (
	// reviewsAtOnce is how many reviews are read and answered at a time. An API server sends 200 at
	// most (--max-mutating-requests-inflight), unless an admin says otherwise; each holds a chunk
	// while it is read, and after that what is kept of it.
	reviewsAtOnce = 1024
	// large is the size from which a review has to wait for its turn; a normal Service has 2 KiB.
	large = 64 << 10
	// largeAtOnce is how many large reviews are read at a time: they must not delay ordinary ones.
	largeAtOnce = 4
)

// Room is what all reviews share that a process reads at the same time. Make one with NewRoom; it
// is safe for concurrent use.
//
// A review that gets no place while it has time is answered with 503. The API server takes that for
// a webhook that failed, so the failurePolicy decides, and we fail open. It cannot be a refusal:
// a tenant that sends many large reviews would have those of all other tenants refused.
type Room struct {
	budget         time.Duration
	reviews, large *semaphore.Weighted
	chunks         sync.Pool
}

// NewRoom returns an empty Room, in which a review has a budget of time.
func NewRoom(budget time.Duration) *Room {
	r := &Room{budget: budget, reviews: semaphore.NewWeighted(reviewsAtOnce), large: semaphore.NewWeighted(largeAtOnce)}
	r.chunks.New = func() any { return new([chunk]byte) }
	return r
}

// Endpoint is a handler and the reviews an API server is configured to send it; it sees no other.
type Endpoint struct {
	admission.Handler
	Group, Resource string
	Operations      []admissionv1.Operation
	// Reads are the members of the object and the old object that the handler sees. They bound a
	// review's cost: what is longer is refused in the object, left out of the old one.
	Reads Members
}

// Handle refuses what no API server sends. API servers do not authenticate themselves, so a program
// that reaches the port can imitate one: this keeps out mistakes and scanners, and a NetworkPolicy
// the other programs.
func (e Endpoint) Handle(ctx context.Context, req admission.Request) admission.Response {
	switch {
	case req.UID == "" || req.UserInfo.Username == "":
		return admission.Errored(http.StatusBadRequest, errors.New("no review of an API server: it has no UID or no user"))
	case req.Resource.Group != e.Group || req.Resource.Resource != e.Resource || req.SubResource != "" || !slices.Contains(e.Operations, req.Operation):
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("nothing is asked here about %s of %s %s", req.Operation, req.Resource.Resource, req.SubResource))
	}
	return e.Handler.Handle(ctx, req)
}

// envelope are the members of an AdmissionReview that are kept around objects. Names and namespaces
// have 253 characters at most, a user name as many as the authenticator likes.
func (e Endpoint) envelope() Members {
	text := Part{Max: 320}
	return Members{"request": {Members: Members{
		"uid": text, "operation": text, "resource": text, "subResource": text, "namespace": text, "name": text, "dryRun": text,
		"userInfo": {Members: Members{"username": {Max: 1 << 10}}},
		"object":   {Members: e.Reads}, "oldObject": {Members: e.Reads.old()},
	}}}
}

// Serve returns what answers the reviews that an API server posts to an endpoint. It reads reviews
// of any size: of each it holds what the endpoint reads, and 16 KiB more until it has arrived. The
// size has no bound that could be relied on: an API server takes 3 MiB from a client, and sends
// what it has made of that, all defaults filled in and the old object beside it.
//
// What is not read to its end passes, as the API server sees a webhook that failed. What is longer
// at a place than the endpoint reads is refused: by then it is known that an API server would not
// store it, or that the handler cannot tell what it is about.
func Serve(e Endpoint, room *Room) http.Handler {
	keep := e.envelope()
	return &served{
		// A panic that is caught here is an answer, and a refusal. Left to the HTTP server it
		// breaks the connection, and the request passes.
		hook: admission.Webhook{Handler: e, RecoverPanic: new(false)},
		keep: keep, most: keep.most(), room: room,
	}
}

type served struct {
	hook admission.Webhook
	keep Members
	most int
	room *Room
}

// ServeHTTP implements http.Handler.
func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), within(s.room.budget, r.Header))
	defer cancel()
	if s.room.reviews.Acquire(ctx, 1) != nil {
		unread(w, http.StatusServiceUnavailable, "busy")
		return
	}
	defer s.room.reviews.Release(1)
	review := trimmed{leave: func() {}}
	defer func() { review.leave() }() // also after a panic while it is read
	err := s.read(ctx, w, r, &review)
	switch {
	case err == nil:
	case errors.Is(err, errMalformed):
		unread(w, http.StatusBadRequest, "malformed")
		return
	case errors.Is(err, errBusy):
		unread(w, http.StatusServiceUnavailable, "busy")
		return
	default:
		unread(w, http.StatusServiceUnavailable, "late")
		return
	}
	answer := s.answer(ctx, review)
	w.Header().Set("Content-Type", "application/json")
	body := admissionv1.AdmissionReview{Response: &answer.AdmissionResponse}
	body.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	if err := json.NewEncoder(w).Encode(body); err != nil {
		log.FromContext(ctx).V(1).Info("An answer did not reach the API server", "problem", err.Error())
	}
}

// unread answers a review that could not be read.
func unread(w http.ResponseWriter, code int, why string) {
	metrics.AdmissionUnread.WithLabelValues(why).Inc()
	http.Error(w, why, code)
}

func (s *served) answer(ctx context.Context, r trimmed) admission.Response {
	if r.long == "" || r.request.UID == "" {
		return s.hook.Handle(ctx, r.request)
	}
	metrics.AdmissionUnread.WithLabelValues("long").Inc()
	refusal := admission.Denied(fmt.Sprintf("%s is longer than the webhooks of clusterip-operator read; shorten it", r.long))
	refusal.UID = r.request.UID
	return refusal
}

// errBusy says that a review found no place.
var errBusy = errors.New("there is no room")

// trimmed is what is kept of an AdmissionReview.
type trimmed struct {
	request admission.Request
	// long is a member that is longer than it may be, empty for none.
	long string
	// leave gives back the place of a large review.
	leave func()
}

// read reads a review into out, as far as it is wanted, while there is time.
func (s *served) read(ctx context.Context, w http.ResponseWriter, r *http.Request, out *trimmed) error {
	deadline, _ := ctx.Deadline()
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(deadline) // a reader that knows none has its ends
	chunk := s.room.chunks.Get().(*[chunk]byte)
	defer s.room.chunks.Put(chunk)
	size, entered := 0, false
	t := &trimmer{chunk: chunk[:0], most: s.most, fill: func(into []byte) (int, error) {
		if size > large && !entered {
			if s.room.large.Acquire(ctx, 1) != nil {
				return 0, errBusy
			}
			entered, out.leave = true, sync.OnceFunc(func() { s.room.large.Release(1) })
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := r.Body.Read(into)
		size += n
		return n, err
	}}
	if err := t.object(s.keep); err != nil {
		return err
	}
	// The HTTP server notices that the API server hangs up when it has read the request to its end.
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, large))
	_ = connection.SetReadDeadline(time.Time{})
	if len(t.kept) < large {
		out.leave()
	}
	parsed := admissionv1.AdmissionReview{Request: &out.request.AdmissionRequest}
	if err := json.Unmarshal(t.kept, &parsed); err != nil || parsed.Request == nil {
		return errMalformed
	}
	out.long = t.long
	return nil
}
