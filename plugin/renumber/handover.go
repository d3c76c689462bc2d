package renumber

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// handover is an address that goes from one Service to another of the same owner, or back.
//
// To a new Service the API server gives an address only if no IPAddress has it, so that of the
// other Service is deleted first, a few milliseconds before. For that long every Service could be
// given the address: a ValidatingAdmissionPolicy refuses the IPAddress to all but the two. To API
// servers it forbids neither of them: their own repair writes for both, and they do not start if it
// is refused that. The operator's repair, which is faster, has to wait.
//
// The policy is the record, too: no tenant reads or writes it. It has no parameters: an API server
// of 1.37 never again reads ConfigMaps as such once the last binding that has some is deleted.
type handover struct {
	Address       netip.Addr
	First, Second types.NamespacedName
	// Nonce proves that the command created the second Service; UID is that of a second Service that
	// has proved itself by its IPAddress.
	Nonce string
	UID   types.UID
}

func recordName(a netip.Addr) string {
	return v1alpha1.HandoverName + "-" + strings.ReplaceAll(a.StringExpanded(), ":", "-")
}

// handovers are the labels of records.
var handovers = client.MatchingLabels{v1alpha1.LabelPurpose: v1alpha1.PurposeHandover}

// The annotations of a record.
const (
	recordFirst  = v1alpha1.Prefix + "/first"
	recordSecond = v1alpha1.Prefix + "/second"
	recordUID    = v1alpha1.AnnotationServiceUID
	recordNonce  = v1alpha1.AnnotationHandover
)

// policy refuses the address to all but the two Services. An error in it refuses nothing: guard
// asks whether it works.
func (h handover) policy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: recordName(h.Address), Labels: handovers, Annotations: map[string]string{
			recordFirst: h.First.String(), recordSecond: h.Second.String(), recordUID: string(h.UID), recordNonce: h.Nonce,
		}},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionregistrationv1.Ignore),
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				ResourceNames: []string{h.Address.String()},
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"networking.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"ipaddresses"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: fmt.Sprintf(`has(object.spec.parentRef.namespace) && object.spec.parentRef.namespace + "/" + object.spec.parentRef.name in [%s, %s] && `+
					`(request.userInfo.username == "system:apiserver" || has(request.options.fieldManager) && request.options.fieldManager == %s)`,
					strconv.Quote(h.First.String()), strconv.Quote(h.Second.String()), strconv.Quote(v1alpha1.ManagerRenumbering)),
				Message: fmt.Sprintf("this moment kubectl clusterip renumber hands the address over from one Service to another: try again (%s)", h.tag()),
				Reason:  new(metav1.StatusReasonForbidden),
			}},
		},
	}
}

// tag tells the policy of this handover from that of one a moment ago, which an API server may
// still follow. It is in the answers that tenants get, and says nothing of the nonce.
func (h handover) tag() string {
	sum := sha256.Sum256([]byte(h.Nonce))
	return fmt.Sprintf("handover %x", sum[:8])
}

func (h handover) binding() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: recordName(h.Address), Labels: handovers},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: recordName(h.Address), ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
}

// of reports whether the second Service is one that renumbering has created. It may be nil.
func (h handover) of(second *corev1.Service) bool {
	switch {
	case second == nil || nameOf(second) != h.Second:
		return false
	case h.UID != "":
		return second.UID == h.UID
	}
	return h.Nonce != "" && second.Annotations[v1alpha1.AnnotationHandover] == h.Nonce
}

// stranded reports whether an IPAddress is left behind by a second Service that its owner has
// deleted or changed: the finalizer holds it, and no Service has the address by it.
func (h handover) stranded(ip *networkingv1.IPAddress, second *corev1.Service) bool {
	return ip != nil && held(ip) && upstream.Service(ip) == h.Second && (second == nil || !slices.Contains(addresses(second), h.Address))
}

// recorded reads the record of an address: what there is, and nil if there is none.
func (m Mover) recorded(ctx context.Context, i Item, a netip.Addr) (h handover, found *admissionregistrationv1.ValidatingAdmissionPolicy, err error) {
	found, err = get(ctx, m, types.NamespacedName{Name: recordName(a)}, &admissionregistrationv1.ValidatingAdmissionPolicy{})
	h = handover{Address: a, First: i.Key(), Second: secondName(i, a)}
	if err != nil || found == nil {
		return h, nil, err
	}
	if found.Annotations[recordFirst] != h.First.String() || found.Annotations[recordSecond] != h.Second.String() {
		return h, nil, left("%s is being handed over by another plan, or that was killed in the middle: run that one again, or delete ValidatingAdmissionPolicy %s if Service %.300s is gone",
			a, found.Name, found.Annotations[recordFirst])
	}
	h.Nonce, h.UID = found.Annotations[recordNonce], types.UID(found.Annotations[recordUID])
	return h, found, nil
}

// begin records a handover, or goes on with the one that is recorded, and returns when API servers
// keep the address for the two Services. uid is that of a proven second Service, or empty.
func (m Mover) begin(ctx context.Context, i Item, a netip.Addr, uid types.UID) (h handover, err error) {
	if h, err = m.record(ctx, i, a, uid); err != nil {
		return h, err
	}
	return h, m.guard(ctx, h)
}

// record writes the policy of a handover, if it is not there.
func (m Mover) record(ctx context.Context, i Item, a netip.Addr, uid types.UID) (h handover, err error) {
	for range tries {
		var found *admissionregistrationv1.ValidatingAdmissionPolicy
		if h, found, err = m.recorded(ctx, i, a); err != nil {
			return h, err
		}
		switch {
		case found == nil:
			h.Nonce, h.UID = rand.Text(), uid
			err = batch.Guarded(ctx, func() error { return m.Client.Create(ctx, h.policy(), client.FieldOwner(v1alpha1.ManagerRenumbering)) })
		case uid != "" && h.UID != uid:
			h.UID = uid
			next := found.DeepCopy()
			next.Annotations = h.policy().Annotations
			err = batch.Guarded(ctx, func() error { return m.Client.Update(ctx, next, client.FieldOwner(v1alpha1.ManagerRenumbering)) })
		}
		switch {
		case errors.Is(err, batch.ErrMoved):
		case err != nil:
			return h, fmt.Errorf("recording that %s is handed over, in ValidatingAdmissionPolicy %s: %w", a, recordName(a), err)
		default:
			return h, nil
		}
	}
	return h, fmt.Errorf("another client writes ValidatingAdmissionPolicy %s all the time", recordName(a))
}

// end removes the record.
func (m Mover) end(ctx context.Context, a netip.Addr) error {
	h := handover{Address: a}
	for _, o := range []client.Object{h.binding(), h.policy()} {
		if err := batch.Retry(ctx, func() error { return client.IgnoreNotFound(m.Client.Delete(ctx, o)) }); err != nil {
			return fmt.Errorf("deleting %T %s, which kept %s while it was handed over: %w", o, o.GetName(), a, err)
		}
	}
	return nil
}

// An API server looks for new policies every second, each at a moment of its own.
const (
	guardedWithin = 20 * time.Second
	othersFollow  = time.Second
)

// guard binds the policies of records, and waits until the API server keeps their addresses for the
// two Services each: until it refuses them to a third one. Once for all of them it waits for other
// API servers, if it was not so before.
func (m Mover) guard(ctx context.Context, all ...handover) error {
	fresh := false
	for _, h := range all {
		refused, _, err := m.tried(ctx, h)
		if err != nil {
			return err
		}
		// One that refuses may still follow a binding that a command deleted before it was killed.
		err = batch.Retry(ctx, func() error { return m.Client.Create(ctx, h.binding(), client.FieldOwner(v1alpha1.ManagerRenumbering)) })
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating ValidatingAdmissionPolicyBinding %s, which keeps an address from other Services while it is handed over: %w", recordName(h.Address), err)
		}
		fresh = fresh || !refused || err == nil
	}
	for _, h := range all {
		if err := m.awaitRefusal(ctx, h); err != nil {
			return err
		}
	}
	if !fresh {
		return nil
	}
	return batch.Sleep(ctx, othersFollow)
}

// awaitRefusal waits until the API server refuses an address to a third Service.
func (m Mover) awaitRefusal(ctx context.Context, h handover) error {
	for begun := m.Clock.Now(); ; {
		refused, answer, err := m.tried(ctx, h)
		switch {
		case err != nil || refused:
			return err
		case m.Clock.Since(begun) > guardedWithin:
			return left("the API server does not keep %s from other Services while it is handed over: ValidatingAdmissionPolicy %s has no effect (last answer: %v)", h.Address, recordName(h.Address), answer)
		}
		if err := batch.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// tried asks, by a dry run, whether the API server refuses an address to a third Service, and
// returns what it answers instead.
func (m Mover) tried(ctx context.Context, h handover) (refused bool, answer, err error) {
	probe := upstream.NewIPAddress(h.Address, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: v1alpha1.HandoverName})
	answer = batch.Retry(ctx, func() error { return m.Client.Create(ctx, probe.DeepCopy(), client.DryRunAll) })
	switch {
	case !apierrors.IsForbidden(answer):
		return false, answer, nil
	case strings.Contains(answer.Error(), h.tag()):
		return true, answer, nil
	case strings.Contains(answer.Error(), recordName(h.Address)):
		return false, answer, nil
	}
	return false, answer, fmt.Errorf("trying whether %s is kept from other Services: %w", h.Address, answer)
}

// tidy removes records of addresses that neither of their Services has any more.
func (m Mover) tidy(ctx context.Context) error {
	records := &admissionregistrationv1.ValidatingAdmissionPolicyList{}
	if err := m.Client.List(ctx, records, handovers); err != nil {
		return fmt.Errorf("listing the records of handovers: %w", err)
	}
	for i := range records.Items {
		a, err := addressOf(&records.Items[i])
		if err != nil {
			continue
		}
		gone, err := m.abandoned(ctx, &records.Items[i], a)
		if err == nil && gone {
			err = m.clear(ctx, a, records.Items[i].Annotations[recordSecond])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// clear removes the record of an address, and frees an IPAddress that the finalizer holds for the
// second Service: without the record no run would, and it would block the end of its ServiceCIDR.
func (m Mover) clear(ctx context.Context, a netip.Addr, second string) error {
	ip, err := m.ipAddress(ctx, a)
	if err != nil {
		return err
	}
	if ip != nil && held(ip) && upstream.Service(ip).String() == second {
		if err := m.free(ctx, ip); err != nil {
			return fmt.Errorf("giving up %s, whose Services are gone: %w", a, err)
		}
	}
	return m.end(ctx, a)
}

// addressOf is the address of a record.
func addressOf(record *admissionregistrationv1.ValidatingAdmissionPolicy) (netip.Addr, error) {
	text := strings.TrimPrefix(record.Name, v1alpha1.HandoverName+"-")
	a, err := netip.ParseAddr(strings.ReplaceAll(text, "-", ":"))
	if err == nil && recordName(a) != record.Name {
		err = fmt.Errorf("%s is no record of a handover", record.Name)
	}
	return a, err
}

// abandoned reports whether neither Service of a record has its address.
func (m Mover) abandoned(ctx context.Context, record *admissionregistrationv1.ValidatingAdmissionPolicy, a netip.Addr) (bool, error) {
	for _, text := range []string{record.Annotations[recordFirst], record.Annotations[recordSecond]} {
		namespace, name, _ := strings.Cut(text, "/")
		s, err := get(ctx, m, types.NamespacedName{Namespace: namespace, Name: name}, &corev1.Service{})
		if err != nil || s != nil && slices.Contains(addresses(s), a) {
			return false, err
		}
	}
	return true, nil
}
