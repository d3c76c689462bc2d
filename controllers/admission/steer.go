package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	jsonpatch "gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/metrics"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// ServiceSteerer is the mutating webhook of Services. Only Leader and Probe are optional; it is
// safe for concurrent use.
type ServiceSteerer struct {
	// Writer deletes the IPAddress of ours at an address that is handed out, and one that a client has
	// written for a Service before that is created.
	Writer client.Writer
	// Namespaces reads from the cache, Live from the API server: the cache may lack a new namespace.
	Namespaces, Live client.Reader
	Index            *addressindex.Index
	Policies         *steering.Cache
	// Leader answers requests for addresses instead of this replica. Nil: this replica answers all.
	Leader Leader
	// ForReplicas is set where other replicas ask. They decide what cannot be decided here; an API
	// server would let the Service pass.
	ForReplicas bool
	Refusals    *Refusals
	Probe       *Probe
	Clock       clock.PassiveClock
}

// Leader is the replica that draws addresses for all.
type Leader interface {
	// Review returns the leader's answer; false if this replica leads, or the leader is silent.
	Review(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, bool)
}

// errUnread says that the first listing is not indexed yet.
var errUnread = errors.New("this replica has not read Services, addresses and policies yet")

// errNoNamespace says that there is no such namespace. The API server finds that out before it
// calls: the request is not its own, or the namespace has just gone.
var errNoNamespace = errors.New("there is no such namespace")

// Handle implements admission.Handler. It answers no error: a failure here lets the request pass.
// Until shortly before the deadline of ctx it waits where a full range may have room in a moment.
func (h *ServiceSteerer) Handle(ctx context.Context, req admission.Request) admission.Response {
	start := h.Clock.Now()
	h.Probe.asked(start)
	response, result := h.answer(ctx, req)
	metrics.AdmissionDecisions.WithLabelValues(result).Inc()
	metrics.AdmissionDuration.Observe(h.Clock.Since(start).Seconds())
	return response
}

// The results of a request, as the metric names them.
const (
	filled     = "filled"
	refused    = "refused"
	left       = "left"
	failed     = "failed"
	handedOn   = "handed-on"
	handedBack = "handed-back"
	malformed  = "malformed"
)

func (h *ServiceSteerer) answer(ctx context.Context, req admission.Request) (admission.Response, string) {
	switch read := h.Index.Synced() && h.Policies.Synced(); {
	case !read && h.ForReplicas: // a leader that was just started anew: its Lease still names it
		return handBack(errUnread)
	case !read:
		return admission.Allowed(""), left
	}
	r, err := decode(req)
	if err != nil {
		return h.pass(ctx, req, err)
	}
	if r.malformed != "" { // the API server will refuse it, and nothing of it may be remembered
		return admission.Allowed(""), malformed
	}
	if !r.service.needsAddress() { // all creations come here, see config/webhook
		if warning, ok := h.Probe.answer(r); ok {
			return admission.Allowed("").WithWarnings(warning), left
		}
		return admission.Allowed(""), left
	}
	if h.Leader != nil && len(r.named)+len(r.missing(h.Policies.Current().Families())) > 0 {
		if response, ok := h.Leader.Review(ctx, &req.AdmissionRequest); ok {
			return admission.Response{AdmissionResponse: *response}, handedOn
		}
	}
	in, err := h.gather(ctx, r)
	if errors.Is(err, errNoNamespace) {
		return admission.Allowed(""), left
	}
	if err != nil {
		return h.pass(ctx, req, err)
	}
	d := decide(in)
	switch {
	case d.refusal != nil:
		return h.refuse(in, d.refusal), refused
	case r.dryRun:
		return h.rehearse(in, d)
	default:
		return h.fill(ctx, in, d)
	}
}

// handBack leaves a request to the replica that asks, by the code: one of an earlier version does
// not look at that, and is to let the Service pass, not to refuse it.
func handBack(err error) (admission.Response, string) {
	response := admission.Allowed(err.Error())
	response.Result.Code = http.StatusServiceUnavailable
	return response, handedBack
}

func (h *ServiceSteerer) pass(ctx context.Context, req admission.Request, err error) (admission.Response, string) {
	if h.ForReplicas {
		return handBack(err)
	}
	log.FromContext(ctx).Error(err, "A Service passes unsteered", "namespace", req.Namespace, "name", req.Name)
	return admission.Allowed(""), failed
}

// gather collects what decide needs.
func (h *ServiceSteerer) gather(ctx context.Context, r request) (inputs, error) {
	in := inputs{request: r, policies: h.Policies.Current()}
	in.subject = steering.Service{NamespacedName: r.service.key(), Labels: r.service.Metadata.Labels}
	var err error
	if in.subject.NamespaceLabels, err = h.namespaceLabels(ctx, in.subject.Namespace); err != nil {
		return inputs{}, err
	}
	for _, a := range r.named {
		in.chosen = append(in.chosen, h.choiceOf(ctx, a, in.subject.NamespacedName))
	}
	return in, nil
}

// namespaceLabels reads the labels of a namespace, which may be too new for the cache.
func (h *ServiceSteerer) namespaceLabels(ctx context.Context, name string) (map[string]string, error) {
	for _, reader := range []client.Reader{h.Namespaces, h.Live} {
		namespace, err := objects.Get(ctx, reader, types.NamespacedName{Name: name}, &corev1.Namespace{})
		if err != nil {
			return nil, err
		}
		if namespace != nil {
			return namespace.Labels, nil
		}
	}
	return nil, errNoNamespace
}

// choiceOf looks up an address that a request names.
func (h *ServiceSteerer) choiceOf(ctx context.Context, a netip.Addr, subject types.NamespacedName) choice {
	c := choice{address: a, state: h.Index.State(a)}
	if r, ok := h.Index.Cooling(a); ok {
		c.coolDown = &r
	}
	for _, other := range h.Index.Claims(a) {
		if other != subject && !mayHandOver(other, subject) && h.holds(ctx, other, a) {
			c.holder = other
		}
	}
	return c
}

// mayHandOver reports whether renumbering may give an address of one Service to the other, which is
// a second one of it by its name, or back. Both are of one tenant, and the API server still refuses
// the address unless its IPAddress was deleted for that.
func mayHandOver(a, b types.NamespacedName) bool {
	return a.Namespace == b.Namespace && (v1alpha1.HasNameOfSecond(a.Name, b.Name) || v1alpha1.HasNameOfSecond(b.Name, a.Name))
}

// holds asks the API server whether a Service has an address: the watch may be late, and no Service
// is refused an address because of a Service that is gone; one that waits for its finalizers has
// its address until then. Where this API server cannot be asked, another one has sent the request.
// That one refuses what has an IPAddress; an address whose IPAddress is lost it would give to a
// second Service, so that the watch has the last word on it.
func (h *ServiceSteerer) holds(ctx context.Context, name types.NamespacedName, a netip.Addr) bool {
	s, err := objects.Get(ctx, h.Live, name, &corev1.Service{})
	if err != nil {
		return h.Index.Uncovered(a)
	}
	return s != nil && slices.Contains(addressindex.ClusterIPs(s), a)
}

func (h *ServiceSteerer) refuse(in inputs, r *steering.Refusal) admission.Response {
	if r.Policy != "" && !in.dryRun {
		m := in.service.Metadata
		name := m.Namespace + "/" + cmp.Or(m.Name, m.GenerateName+"*") // of one without a name yet: what it will begin with
		h.Refusals.Add(r.Policy, v1alpha1.PolicyRefusal{Time: metav1.NewMicroTime(h.Clock.Now()), Service: name, Message: r.Why()})
	}
	return admission.Denied(r.Message)
}

// rehearse answers a dry run: it refuses where no address is free, and hands out none.
func (h *ServiceSteerer) rehearse(in inputs, d decision) (admission.Response, string) {
	for _, s := range d.fill {
		if len(s.reserved) > 0 || !h.Index.Full(s.route.Tiers) {
			continue
		}
		if r := in.policies.Full(s.route, s.family); r != nil {
			return h.refuse(in, r), refused
		}
	}
	return admission.Allowed("").WithWarnings(d.warnings...), left
}

// fill takes what the request names, draws what it lacks and answers with the patch. What it took
// is given back unless the request passes.
func (h *ServiceSteerer) fill(ctx context.Context, in inputs, d decision) (admission.Response, string) {
	var taken []netip.Addr
	for _, a := range d.take {
		h.freeOrphan(ctx, in, a)
		if h.take(ctx, in, a) { // what cannot be had is left to the API server to refuse
			taken = append(taken, a)
		}
	}
	found := make([]netip.Addr, len(d.fill))
	// The second round is for what yielded while the request waited for its other address.
	for i := range 2 * len(found) {
		at := i % len(found)
		if h.Index.Holds(found[at], in.holder()) {
			continue
		}
		var refusal *steering.Refusal
		if found[at], refusal = h.draw(ctx, in, d.fill[at]); found[at].IsValid() {
			continue
		}
		h.forget(in, found)
		if refusal = cmp.Or(refusal, h.uncovered()); refusal == nil { // everything is full: the API server says it best
			return admission.Allowed("").WithWarnings(d.warnings...), left
		}
		h.forget(in, taken)
		return h.refuse(in, refusal), refused
	}
	if errors.Is(ctx.Err(), context.Canceled) { // the caller does not wait for the answer any more: a replica that draws by itself by now, or the API server
		h.forget(in, slices.Concat(found, taken))
		return admission.Allowed(""), left
	}
	if len(found) == 0 {
		return admission.Allowed("").WithWarnings(d.warnings...), left
	}
	return patch(d, found), filled
}

// forget gives back what the request took, as far as it still has it.
func (h *ServiceSteerer) forget(in inputs, addresses []netip.Addr) {
	for _, a := range addresses {
		h.Index.Forget(a, in.holder())
	}
}

// uncovered refuses Services while everything is full and an address of a Service lacks its
// IPAddress: the API server takes that address for free, and would give it to a second Service.
func (h *ServiceSteerer) uncovered() *steering.Refusal {
	claimed, covered := h.Index.Relation()
	if claimed == covered {
		return nil
	}
	return &steering.Refusal{Message: "no address is left for this Service: range is full; try again in a moment", Reason: fmt.Sprintf(
		"no address is left, and %d addresses that Services have lack their IPAddresses, which are being restored; try again, or add a ServiceCIDR", claimed-covered)}
}

func patch(d decision, found []netip.Addr) admission.Response {
	all := slices.Clone(d.have)
	for _, a := range found {
		all = append(all, a.String())
	}
	// "add" replaces a member that is there.
	return admission.Patched("",
		jsonpatch.NewOperation("add", "/spec/clusterIPs", all),
		jsonpatch.NewOperation("add", "/spec/clusterIP", all[0]),
	).WithWarnings(d.warnings...)
}
