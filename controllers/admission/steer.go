package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	jsonpatch "gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/ledger"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/metrics"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/replicas"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

// budget is the time that a request may take here; the API server gives us two seconds.
const budget = 1700 * time.Millisecond

// ServiceSteerer is the mutating webhook of Services. All fields are required; it is safe for concurrent use.
type ServiceSteerer struct {
	// Writer writes claims and deletes what we keep at an address that is handed out.
	Writer client.Writer
	// Namespaces reads from the cache, Live from the API server itself: a namespace may be younger than what the cache has.
	Namespaces, Live client.Reader
	Ledger           *ledger.Ledger
	Board            *steering.Board
	Replicas         Replicas
	Refusals         *Refusals
	Clock            clock.PassiveClock
}

// Replicas are the processes that hand out addresses side by side.
type Replicas interface {
	// ID is the name of this process among them.
	ID() string
	// Rights are the addresses that this replica may hand out without asking, and how.
	Rights() replicas.Rights
	// Borrow asks another one what this replica may do with an address that is none of those.
	Borrow(ctx context.Context, a netip.Addr) (replicas.Grant, error)
}

var _ admission.Handler = (*ServiceSteerer)(nil)

// most is how many addresses may be handed out without a trace in the cluster, at a time. API servers create a thousand Services a
// second; beyond that somebody asks who is no API server, or creations fail one after the other.
const most = 4096

// errNoNamespace says that there is no such namespace. The API server finds that out before it asks: the request is not its own, or the
// namespace has just gone.
var errNoNamespace = errors.New("there is no such namespace")

// Handle implements admission.Handler. It never answers with an error: what goes wrong here lets the request pass.
func (h *ServiceSteerer) Handle(ctx context.Context, req admission.Request) admission.Response {
	start := h.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	response, result := h.answer(ctx, req)
	metrics.AdmissionDecisions.WithLabelValues(result).Inc()
	metrics.AdmissionDuration.Observe(h.Clock.Since(start).Seconds())
	return response
}

// The results of a request, as the metric names them.
const (
	filled  = "filled"
	refused = "refused"
	left    = "left"
	failed  = "failed"
)

func (h *ServiceSteerer) answer(ctx context.Context, req admission.Request) (admission.Response, string) {
	if !h.Ledger.Synced() || !h.Board.Synced() {
		return admission.Allowed(""), left
	}
	w, err := h.gather(ctx, req)
	if errors.Is(err, errNoNamespace) {
		return admission.Allowed(""), left
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "A Service passes unsteered", "namespace", req.Namespace, "name", req.Name)
		return admission.Allowed(""), failed
	}
	v := decide(w)
	if v.refusal != nil {
		return h.refuse(w, v.refusal, isDryRun(req)), refused
	}
	if isDryRun(req) {
		return h.rehearse(w, v)
	}
	if h.Ledger.Assumed() >= most {
		return admission.Allowed("").WithWarnings(v.warnings...), left
	}
	h.take(ctx, w, v)
	return h.fill(ctx, w, v)
}

func isDryRun(req admission.Request) bool { return req.DryRun != nil && *req.DryRun }

// gather collects what decide needs.
func (h *ServiceSteerer) gather(ctx context.Context, req admission.Request) (world, error) {
	s, old, err := decode(req)
	if err != nil {
		return world{}, err
	}
	w := world{service: s, old: old, snapshot: h.Board.Current()}
	w.subject = steering.Service{NamespacedName: s.key(), Labels: s.Metadata.Labels}
	if w.subject.NamespaceLabels, err = h.namespaceLabels(ctx, req.Namespace); err != nil {
		return world{}, err
	}
	for _, a := range chosen(s, old) {
		w.chosen = append(w.chosen, h.look(ctx, a, w.subject))
	}
	return w, nil
}

// namespaceLabels reads the labels of a namespace. Many Services are created in the moment after their namespace.
func (h *ServiceSteerer) namespaceLabels(ctx context.Context, name string) (map[string]string, error) {
	namespace := &corev1.Namespace{}
	err := h.Namespaces.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		err = h.Live.Get(ctx, client.ObjectKey{Name: name}, namespace)
	}
	if apierrors.IsNotFound(err) {
		return nil, errNoNamespace
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return namespace.Labels, nil
}

// look asks the books about an address that a request names.
func (h *ServiceSteerer) look(ctx context.Context, a netip.Addr, subject steering.Service) choice {
	c := choice{address: a, state: h.Ledger.State(a)}
	if r, ok := h.Ledger.Resting(a); ok && !h.yielded(ctx, a, r, subject) {
		c.rest = &r
	}
	to, ok := h.Ledger.HandedTo(a)
	c.ours = ok && to.Service == subject.NamespacedName
	return c
}

// yielded reports whether an address that seems to rest for somebody else was given to this Service after all, by a replica that was asked
// before us about the same request (reinvocation): then the IPAddress that kept it is gone, which our watch shows a moment later.
func (h *ServiceSteerer) yielded(ctx context.Context, a netip.Addr, r ledger.Rest, subject steering.Service) bool {
	if _, kept := h.Ledger.Kept(a); !kept || r.Service == subject.NamespacedName {
		return false
	}
	return apierrors.IsNotFound(h.Live.Get(ctx, client.ObjectKey{Name: a.String()}, &networkingv1.IPAddress{}))
}

func (h *ServiceSteerer) refuse(w world, r *steering.Refusal, dryRun bool) admission.Response {
	if r.Policy != "" && !dryRun {
		h.Refusals.Add(r.Policy, v1alpha1.PolicyRefusal{
			Time: metav1.NewMicroTime(h.Clock.Now()), Service: w.service.displayName(), Message: r.Message,
		})
	}
	return admission.Denied(r.Message)
}

// rehearse answers a dry run: what would be refused for want of an address is refused, and nothing is kept.
func (h *ServiceSteerer) rehearse(w world, v verdict) (admission.Response, string) {
	for _, s := range v.fill {
		if len(s.kept) > 0 {
			continue
		}
		drawn, err := h.Ledger.Draw(allocator.Lot{Tiers: s.route.Tiers, Yield: true}, ledger.Holder{Service: w.subject.NamespacedName})
		if err == nil {
			h.Ledger.Forget(drawn.Addr)
			continue
		}
		if r := h.full(w, s); r != nil && errors.Is(err, allocator.ErrFull) {
			return h.refuse(w, r, true), refused
		}
	}
	return admission.Allowed("").WithWarnings(v.warnings...), left
}

// take keeps addresses that users chose from being drawn while the API server writes them, and makes room for a Service that asks for
// what we keep for it. When that does not succeed the API server says so.
func (h *ServiceSteerer) take(ctx context.Context, w world, v verdict) {
	deadline := h.patience(ctx)
	for _, a := range v.take {
		if !h.offered(a) || !h.takeSoon(ctx, a, ledger.Holder{Service: w.subject.NamespacedName}, deadline) {
			continue
		}
		if err := h.makeRoom(ctx, a); err != nil {
			log.FromContext(ctx).Info("An address could not be freed for its Service", "address", a, "problem", err.Error())
		}
	}
}

// patience is until when a request waits for addresses that are just being kept. The leader writes down what rests after a second, which other
// replicas expect from 0.2 s before that on.
func (h *ServiceSteerer) patience(ctx context.Context) time.Time {
	return h.Clock.Now().Add(min(500*time.Millisecond, timeLeft(ctx)-reserve))
}

// takeSoon takes an address that is free, or kept for somebody whom it is taken for. Patience covers the moment in which the address is being
// kept.
func (h *ServiceSteerer) takeSoon(ctx context.Context, a netip.Addr, to ledger.Holder, deadline time.Time) bool {
	for {
		taken, busy := h.Ledger.Take(a, to)
		if !busy || h.Clock.Now().After(deadline) || ctx.Err() != nil {
			return taken
		}
		time.Sleep(5 * glance)
	}
}

// makeRoom deletes what we keep at an address that was taken. Where the books show nothing at a reserved address the API server is asked: the
// leader reserves it again as soon as its Service is gone, which our watch shows a moment later.
func (h *ServiceSteerer) makeRoom(ctx context.Context, a netip.Addr) error {
	_, kept := h.Ledger.Kept(a)
	r, reserved := h.Board.Current().Reservation(a)
	if kept || !reserved {
		return h.claimer().makeRoom(ctx, a)
	}
	ctx, cancel := context.WithTimeout(ctx, sight)
	defer cancel()
	ip := &networkingv1.IPAddress{}
	switch err := h.Live.Get(ctx, client.ObjectKey{Name: a.String()}, ip); {
	case err != nil: // nobody stands there, or nobody knows: then the API server finds out
		return nil
	case !isReservation(ip, r.Policy):
		h.Ledger.Lost(a)
		return errLost
	}
	h.Ledger.Claimed(a, ip.UID)
	return h.claimer().makeRoomOf(ctx, a, ip.UID)
}

// isReservation reports whether an IPAddress keeps its address for a policy.
func isReservation(ip *networkingv1.IPAddress, policy string) bool {
	return ip.Labels[networkingv1.LabelManagedBy] == v1alpha1.ManagedByOperator && ip.Labels[v1alpha1.LabelPurpose] == v1alpha1.PurposeReservation &&
		upstream.Policy(ip) == policy
}

// fill draws what is missing and answers with the patch.
func (h *ServiceSteerer) fill(ctx context.Context, w world, v verdict) (admission.Response, string) {
	var found []netip.Addr
	for _, s := range v.fill {
		a, refusal, err := h.draw(ctx, w, s)
		if err == nil && refusal == nil && a.IsValid() {
			found = append(found, a)
			continue
		}
		for _, b := range found {
			h.Ledger.Forget(b)
		}
		switch {
		case refusal != nil:
			return h.refuse(w, refusal, false), refused
		case err != nil:
			log.FromContext(ctx).Error(err, "A Service passes unsteered", "service", w.service.displayName())
			return admission.Allowed("").WithWarnings(v.warnings...), failed
		}
		return admission.Allowed("").WithWarnings(v.warnings...), left // everything is full: the API server says it best
	}
	if len(found) == 0 {
		return admission.Allowed("").WithWarnings(v.warnings...), left
	}
	return patch(v, found), filled
}

// patch answers with the addresses that the Service has and those that were found.
func patch(v verdict, found []netip.Addr) admission.Response {
	all := append([]string{}, v.have...)
	for _, a := range found {
		all = append(all, a.String())
	}
	// "add" replaces a member that is there.
	return admission.Patched("",
		jsonpatch.NewOperation("add", "/spec/clusterIPs", all),
		jsonpatch.NewOperation("add", "/spec/clusterIP", all[0]),
	).WithWarnings(v.warnings...)
}

// displayName is the Service for people; one without a name yet has what its name will begin with.
func (s *service) displayName() string {
	name := s.Metadata.Name
	if name == "" {
		name = s.Metadata.GenerateName + "*"
	}
	return s.Metadata.Namespace + "/" + name
}

func (h *ServiceSteerer) claimer() *claimer {
	return &claimer{client: h.Writer, ledger: h.Ledger, replica: h.Replicas.ID()}
}
