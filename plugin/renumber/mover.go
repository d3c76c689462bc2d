package renumber

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// Mover moves Services, one at a time or many side by side. All fields but Refusal are required.
type Mover struct {
	// Client reads from the API server itself, and writes.
	Client client.Client
	Keep   Keep
	// Rules are asked again right before a Service is moved; nil for the way back.
	Rules *Rules
	// Awaited are those of the Rules, for the way back too.
	Awaited map[types.NamespacedName][]string
	// Refusal says why a Service may not, or cannot, have its new addresses, empty if it gets them.
	// Nil allows all.
	Refusal func(ctx context.Context, s *corev1.Service, takes []netip.Addr) (string, error)
	Clock   clock.PassiveClock
}

// LeftError says why a Service was left as it is, or what became of it instead.
type LeftError struct{ Why string }

// Error implements error.
func (e *LeftError) Error() string { return e.Why }

func left(format string, args ...any) error { return &LeftError{fmt.Sprintf(format, args...)} }

// tries is how often a Service is looked at anew because another client writes it meanwhile.
const tries = 20

// Move takes a Service from any stage to its new addresses, and returns the old ones kept for it.
// It can be called again after any interruption, and outlasts ctx between the two updates.
// LeftError: the Service has its addresses of before, or what its owner or the API server gave it.
func (m Mover) Move(ctx context.Context, i Item) ([]Held, error) {
	finish := finishing(ctx)
	s, err := m.service(ctx, i)
	for range tries {
		if err != nil {
			break
		}
		switch stage, why := stageOf(i, s); stage {
		case Waiting:
			if m.Rules == nil {
				i.Balancer = s.Status.LoadBalancer // on the way back there is no other plan to be made
			}
			s, err = m.leave(ctx, i, s)
		case Between:
			if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
				s, err = m.restore(finish, i, s)
			} else {
				s, err = m.enter(finish, i, s)
			}
		case Left:
			err = left("%s", why)
		default:
			if s, err = m.settle(finish, i, s); err == nil {
				return m.keep(finish, i, s)
			}
		}
		if errors.Is(err, batch.ErrMoved) { // another client wrote it
			s, err = m.service(finish, i)
		}
	}
	if err == nil {
		err = left("another client writes it all the time")
	}
	if why, is := errors.AsType[*LeftError](err); is {
		return m.abandon(finish, i, why)
	}
	return nil, err
}

// abandon gives up what was held for a Service that is left, except the old addresses that it has
// had until now. The error is why it is left, unless that fails.
//
// An API server that reads an old version of the Service from its cache allocates the new addresses
// before it finds that another client was faster, and keeps them.
func (m Mover) abandon(ctx context.Context, i Item, why *LeftError) ([]Held, error) {
	s, err := m.service(ctx, i)
	if err != nil {
		return nil, err
	}
	unused := slices.DeleteFunc(slices.Clone(i.New), func(a netip.Addr) bool { return s != nil && slices.Contains(addresses(s), a) })
	if _, err := m.sweep(ctx, i, unused, true); err != nil {
		return nil, err
	}
	if s != nil && s.UID == i.UID && !between(s) {
		if s, err = m.settle(ctx, i, s); err != nil {
			return nil, err
		}
	}
	held, err := m.keep(ctx, i, s)
	if err != nil {
		return held, err
	}
	return held, why
}

// finishing returns a context that ends a while after ctx: a Service must not be left between, but
// an API server that is away is not waited for any longer.
func finishing(ctx context.Context) context.Context {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(30*time.Second, cancel) })
	return out
}

// service reads a Service, nil if there is none.
func (m Mover) service(ctx context.Context, i Item) (s *corev1.Service, err error) {
	err = batch.Retry(ctx, func() error {
		s, err = objects.Get(ctx, m.Client, i.Key(), &corev1.Service{})
		return err
	})
	return s, err
}

// ipAddress reads an IPAddress, nil if there is none.
func (m Mover) ipAddress(ctx context.Context, a netip.Addr) (ip *networkingv1.IPAddress, err error) {
	err = batch.Retry(ctx, func() error {
		ip, err = objects.Get(ctx, m.Client, types.NamespacedName{Name: a.String()}, &networkingv1.IPAddress{})
		return err
	})
	return ip, err
}

// update writes a Service. The version guards what another client wrote: then it is batch.ErrMoved.
func (m Mover) update(ctx context.Context, s *corev1.Service, options ...client.UpdateOption) (*corev1.Service, error) {
	err := batch.Guarded(ctx, func() error {
		next := s.DeepCopy()
		err := m.Client.Update(ctx, next, append(options, client.FieldOwner(v1alpha1.ManagerRenumbering))...)
		if err == nil {
			s = next
		}
		return err
	})
	return s, err
}

// leave holds all of a Service's addresses, even those it gets back, and makes it an ExternalName.
func (m Mover) leave(ctx context.Context, i Item, s *corev1.Service) (*corev1.Service, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := m.ready(ctx, i, s); err != nil {
		return nil, err
	}
	kept, err := m.kept(ctx, s)
	if err != nil {
		return nil, err
	}
	before := len(kept)
	if kept = append(kept, without(i.Old, kept)...); len(kept) > steering.MaxFormer {
		return nil, left("%d former addresses are kept for it already, which is all that can be: wait until they are unused, with the plans that moved it", before)
	}
	text, err := newRecord(s)
	if err != nil {
		return nil, err
	}
	ctx = finishing(ctx)
	for _, a := range i.Old {
		if err := m.hold(ctx, i, a); err != nil {
			return nil, err
		}
	}
	// The first update has to find the version that the record is of.
	if s, err = m.updateStatus(ctx, proves(s, text)); err != nil {
		return nil, err
	}
	next, err := m.update(ctx, leaving(s, text, kept))
	if refusal(err) {
		return nil, left("the API server refuses the first of the two updates: %v", err)
	}
	return next, err
}

// kept returns the former addresses that a Service lists and whose IPAddresses are kept for it. The
// owner of the Service may write that list, and what comes of it ends in spec.externalIPs.
func (m Mover) kept(ctx context.Context, s *corev1.Service) (out []netip.Addr, err error) {
	for _, a := range former(s) {
		ip, err := m.ipAddress(ctx, a)
		if err != nil {
			return nil, err
		}
		if keptFor(ip, s) && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out, nil
}

// updateStatus writes the status of a Service. The error is as that of update.
func (m Mover) updateStatus(ctx context.Context, s *corev1.Service) (*corev1.Service, error) {
	err := batch.Guarded(ctx, func() error {
		next := s.DeepCopy()
		err := m.Client.Status().Update(ctx, next, client.FieldOwner(v1alpha1.ManagerRenumbering))
		if err == nil {
			s = next
		}
		return err
	})
	if err != nil && !errors.Is(err, batch.ErrMoved) {
		return nil, fmt.Errorf("writing the status of Service %s: %w", nameOf(s), err)
	}
	return s, err
}

// settle takes the record off a Service that is not between any more, and first the proof of it:
// its owner must not use it once more.
func (m Mover) settle(ctx context.Context, i Item, s *corev1.Service) (*corev1.Service, error) {
	for range tries {
		next, proof, annotation := settled(s)
		var err error
		switch {
		case proof:
			s, err = m.updateStatus(ctx, next)
		// An annotation that the owner wrote stays on an ExternalName: nothing believes it.
		case annotation && !v1alpha1.BeingRenumbered(s):
			s, err = m.update(ctx, next)
		default:
			return s, nil
		}
		if errors.Is(err, batch.ErrMoved) {
			s, err = m.service(ctx, i)
		}
		switch {
		case err != nil:
			return nil, err
		case s == nil || s.UID != i.UID:
			return nil, batch.ErrMoved
		}
	}
	return nil, fmt.Errorf("another client writes Service %s all the time", i.Key())
}

// ready asks everything that could refuse the second update, before the first.
func (m Mover) ready(ctx context.Context, i Item, s *corev1.Service) error {
	why := Rules{Awaited: m.Awaited}.awaited(s)
	if m.Rules != nil {
		why = m.Rules.judge(s, i.Named)
	}
	if why != "" {
		return left("%s", why)
	}
	if !equality.Semantic.DeepEqual(s.Status.LoadBalancer, i.Balancer) {
		return left("its load balancer has another status than when the plan was made: make a new one")
	}
	for _, a := range i.takes() {
		ip, err := m.ipAddress(ctx, a)
		if err != nil {
			return err
		}
		if ip != nil && !ofService(ip, i.Key()) && !upstream.ManagedByOperator(ip) {
			return left("%s is taken by %s: make a new plan for it", a, upstream.Describe(ip))
		}
	}
	if m.Refusal != nil {
		switch why, err := m.Refusal(ctx, s, i.New); {
		case err != nil:
			return err
		case why != "":
			return left("%s", why)
		}
	}
	if m.Keep != KeepExternalIPs {
		return nil
	}
	try := s.DeepCopy()
	addExternal(&try.Spec, i.leaves())
	_, err := m.update(ctx, try, client.DryRunAll)
	if refusal(err) {
		return left("the old address cannot be kept as an external IP: %v", err)
	}
	return err
}

// hold puts our finalizer on an IPAddress, so that it stays when the API server lets go of it.
func (m Mover) hold(ctx context.Context, i Item, a netip.Addr) error {
	for range tries {
		ip, err := m.ipAddress(ctx, a)
		switch {
		case err != nil:
			return err
		case ip == nil || !ofService(ip, i.Key()):
			return left("its address %s has no IPAddress that names it: `kubectl clusterip check` says more", a)
		case held(ip):
			return nil
		case !ip.DeletionTimestamp.IsZero():
			return left("the IPAddress of %s is being deleted", a)
		}
		next := ip.DeepCopy()
		next.Finalizers = append(next.Finalizers, v1alpha1.FinalizerFormer)
		if err := m.patch(ctx, ip, next); !errors.Is(err, batch.ErrMoved) {
			return err
		}
	}
	return left("another client writes the IPAddress of %s all the time", a)
}

// unhold takes our finalizer off again; an IPAddress that is ours, or that the API server has let
// go of, is gone then. It leaves those alone that are not of the Service.
func (m Mover) unhold(ctx context.Context, i Item, a netip.Addr) error {
	for range tries {
		ip, err := m.ipAddress(ctx, a)
		if err != nil || ip == nil || !ofService(ip, i.Key()) || !held(ip) {
			return err
		}
		next := ip.DeepCopy()
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == v1alpha1.FinalizerFormer })
		switch err := m.patch(ctx, ip, next); {
		case errors.Is(err, batch.ErrMoved):
		case err == nil && upstream.ManagedByOperator(ip) && ip.DeletionTimestamp.IsZero():
			return objects.IgnoreGone(m.Client.Delete(ctx, ip, client.Preconditions{UID: &ip.UID}))
		default:
			return err
		}
	}
	return fmt.Errorf("another client writes the IPAddress of %s all the time", a)
}

// patch writes what is different, if the object still has the version that was read.
func (m Mover) patch(ctx context.Context, from, to *networkingv1.IPAddress) error {
	err := batch.Guarded(ctx, func() error {
		return m.Client.Patch(ctx, to.DeepCopy(), client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{}), client.FieldOwner(v1alpha1.ManagerRenumbering))
	})
	if err != nil && !errors.Is(err, batch.ErrMoved) {
		return fmt.Errorf("writing IPAddress %s: %w", from.Name, err)
	}
	return err
}

// enter gives a Service that is between its new addresses. If the API server refuses them the
// Service gets its old ones back, and at last whatever it can have: an ExternalName serves no
// client. Where node ports are what is refused it gets the addresses with other ports.
func (m Mover) enter(ctx context.Context, i Item, s *corev1.Service) (*corev1.Service, error) {
	was, err := underway(i, s)
	if err != nil {
		return nil, left("%v", err)
	}
	var refused error
	anyPorts := false
	tries := [][]netip.Addr{i.New, i.Old, i.New[:len(i.New)/2], nil} // of two, the first alone may be free; of one, this is none
	for len(tries) > 0 {
		with, write := tries[0], m.update
		if refused == nil {
			write = m.patient(i)
		}
		next, err := m.enterWith(ctx, i, s, was, with, anyPorts || len(tries) == 1, write)
		switch {
		case err == nil && refused != nil:
			if v1alpha1.BeingRenumbered(next) {
				next, err = m.restore(ctx, i, next)
			}
			if err != nil {
				return nil, err
			}
			return nil, left("the API server refused what it was to have (%s): %v; it has %s now", texts(i.New), refused, texts(addresses(next)))
		case !refusal(err) || apierrors.IsInternalError(err) && len(with) == len(i.New): // an API server that fails would fail with any address: the Service waits for the next run, and nothing is given up
			return next, err
		case !anyPorts && aboutNodePorts(err):
			anyPorts = true
		default:
			tries = tries[1:]
		}
		if _, err := m.sweep(ctx, i, with, true); err != nil {
			return nil, err
		}
		refused, s = errors.Join(refused, err), released(s, with) // nothing holds them any more
	}
	return nil, fmt.Errorf("the API server takes no update that gives Service %s an address, and it is of type ExternalName: %w", i.Key(), refused)
}

// updater is Mover.update, or something like it.
type updater func(context.Context, *corev1.Service, ...client.UpdateOption) (*corev1.Service, error)

// enterWith carries out the second update.
func (m Mover) enterWith(ctx context.Context, i Item, s *corev1.Service, was *record, with []netip.Addr, anyPorts bool, write updater) (*corev1.Service, error) {
	kept, err := m.kept(ctx, s)
	if err != nil {
		return nil, err
	}
	next := entering(s, was, with, without(kept, with), m.Keep == KeepExternalIPs)
	if anyPorts {
		dropNodePorts(next)
	}
	for _, a := range with {
		if err := m.unhold(ctx, i, a); err != nil {
			return nil, err
		}
	}
	return write(ctx, next)
}

// The API server may still work on a request of a killed command, or was killed at it: the
// addresses and node ports that it allocated for the Service are free in a moment, or never.
const (
	askEvery = 200 * time.Millisecond
	orphaned = 8  // tries, after which no API server comes for an IPAddress that was allocated so
	attempts = 15 // tries
)

// patient returns an update that waits a while where a Service gets in its own way.
func (m Mover) patient(i Item) updater {
	return func(ctx context.Context, s *corev1.Service, _ ...client.UpdateOption) (*corev1.Service, error) {
		for try := 1; ; try++ {
			out, err := m.update(ctx, s)
			if !apierrors.IsInvalid(err) || try == attempts {
				return out, err
			}
			if others, failed := m.sweep(ctx, i, i.New, try == orphaned); failed != nil || others {
				return out, errors.Join(err, failed)
			}
			if failed := batch.Sleep(ctx, askEvery); failed != nil {
				return nil, failed
			}
		}
	}
}

// sweep reports whether another owner has one of the addresses, and deletes IPAddresses of them
// that an API server has allocated for a Service that is between, and left behind: it refuses an
// update for the second address of two and keeps the first.
func (m Mover) sweep(ctx context.Context, i Item, all []netip.Addr, remove bool) (others bool, err error) {
	for _, a := range all {
		ip, err := m.ipAddress(ctx, a)
		switch {
		case err != nil:
			return others, err
		case ip == nil || upstream.ManagedByOperator(ip) || held(ip):
		case !ofService(ip, i.Key()):
			others = true
		case remove:
			if err := objects.IgnoreGone(m.Client.Delete(ctx, ip, client.Preconditions{UID: &ip.UID})); err != nil {
				return others, fmt.Errorf("deleting IPAddress %s, which an API server has left behind: %w", ip.Name, err)
			}
		}
	}
	return others, nil
}

// refusal reports whether the API server has understood a request and will not have it.
func refusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsInternalError(err)
}

// aboutNodePorts reports whether node ports are refused. An API server whose client is killed in
// the middle of the first update forgets to free them, and takes ten minutes to notice.
func aboutNodePorts(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return strings.HasSuffix(c.Field, ".nodePort") || strings.HasSuffix(c.Field, ".healthCheckNodePort")
	})
}

// dropNodePorts gives up the numbers, which other Services may have taken.
func dropNodePorts(s *corev1.Service) {
	s.Spec.HealthCheckNodePort = 0
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].NodePort = 0
	}
}

// restore gives a load balancer that lacks its status the one of its record, and takes the proof of
// that off in the same write. If its cloud controller is faster, it is not between any more.
func (m Mover) restore(ctx context.Context, i Item, s *corev1.Service) (*corev1.Service, error) {
	was, err := underway(i, s)
	if err != nil {
		return nil, left("%v", err)
	}
	next, _, _ := settled(s)
	next.Status.LoadBalancer = was.Balancer
	return m.updateStatus(ctx, next)
}

// Held is an old address that is kept for a Service.
type Held struct {
	Item    Item
	Address netip.Addr
	// Since is when the Service had it no more.
	Since time.Time
}

// keep turns old addresses that the API server has let go of into additional ones. It gives up what
// the Service does not need, because it is gone or another one, or has the address as ever.
func (m Mover) keep(ctx context.Context, i Item, s *corev1.Service) (out []Held, err error) {
	for _, a := range append(i.leaves(), i.New...) {
		h := Held{Item: i, Address: a}
		if s == nil || s.UID != i.UID || !slices.Contains(former(s), a) {
			if err := m.unhold(ctx, i, a); err != nil {
				return out, err
			}
			continue
		}
		switch h.Since, err = m.relabel(ctx, s, a); {
		case errors.Is(err, errFree):
			if err := m.release(ctx, h); err != nil {
				return out, err
			}
		case err != nil:
			return out, err
		default:
			out = append(out, h)
		}
	}
	return out, nil
}

// errFree says that a former address has no holder any more, so that any Service can be given it.
var errFree = errors.New("nothing holds it")

// relabel makes an IPAddress that the API server has let go of ours, and returns since when it is.
func (m Mover) relabel(ctx context.Context, s *corev1.Service, a netip.Addr) (since time.Time, err error) {
	for range tries {
		ip, err := m.ipAddress(ctx, a)
		if err != nil {
			return since, err
		}
		if !keptFor(ip, s) {
			return since, errFree
		}
		if since, err = time.Parse(time.RFC3339Nano, ip.Annotations[v1alpha1.AnnotationReleased]); err == nil && upstream.ManagedByOperator(ip) {
			return since, nil
		}
		next := ip.DeepCopy()
		since = m.Clock.Now().UTC()
		metav1.SetMetaDataLabel(&next.ObjectMeta, networkingv1.LabelManagedBy, v1alpha1.ManagedByOperator)
		metav1.SetMetaDataLabel(&next.ObjectMeta, v1alpha1.LabelPurpose, v1alpha1.PurposeAdditional)
		next.Annotations = map[string]string{v1alpha1.AnnotationServiceUID: string(s.UID), v1alpha1.AnnotationReleased: since.Format(time.RFC3339Nano)}
		if err := m.patch(ctx, ip, next); !errors.Is(err, batch.ErrMoved) {
			return since, err
		}
	}
	return since, fmt.Errorf("another client writes the IPAddress of %s all the time", a)
}

// ofService reports whether an IPAddress names the Service.
func ofService(ip *networkingv1.IPAddress, name types.NamespacedName) bool {
	return upstream.Service(ip) == name
}

func held(ip *networkingv1.IPAddress) bool {
	return slices.Contains(ip.Finalizers, v1alpha1.FinalizerFormer)
}
