package renumber

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// handover is an address that goes from one Service to another of the same owner, or back. A
// ConfigMap in kube-system, where no tenant reads or writes, records it.
//
// To a new Service the API server gives an address only if no IPAddress has it, so that of the
// other Service is deleted first, a few milliseconds before. For that long every Service could be
// given the address: a ValidatingAdmissionPolicy refuses the IPAddress to all but the two. It
// forbids neither of them, as the API server's own repair writes for both, and does not start if it
// is refused that.
type handover struct {
	Address       netip.Addr
	First, Second types.NamespacedName
	// Nonce proves that the command created the second Service; UID is that of a second Service that
	// has proved itself by its IPAddress.
	Nonce string
	UID   types.UID
}

// configMap is the record of a handover. IPv6 addresses have no colons in it, nor a dash at an end.
func (h handover) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: recordName(h.Address), Labels: handovers,
		},
		Data: map[string]string{
			"address": h.Address.String(), "first": h.First.String(), "second": h.Second.String(), "nonce": h.Nonce, "uid": string(h.UID),
		},
	}
}

func recordName(a netip.Addr) string {
	return v1alpha1.HandoverName + "-" + strings.ReplaceAll(a.StringExpanded(), ":", "-")
}

// handovers are the labels of records.
var handovers = client.MatchingLabels{v1alpha1.LabelPurpose: v1alpha1.PurposeHandover}

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

// recorded reads the record of an address: whether there is one, and if it is of the item.
func (m Mover) recorded(ctx context.Context, i Item, a netip.Addr) (h handover, found *corev1.ConfigMap, err error) {
	err = batch.Retry(ctx, func() error {
		found, err = objects.Get(ctx, m.Client, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: recordName(a)}, &corev1.ConfigMap{})
		return err
	})
	h = handover{Address: a, First: i.Key(), Second: secondName(i, a)}
	if err != nil || found == nil {
		return h, nil, err
	}
	if found.Data["first"] != h.First.String() || found.Data["second"] != h.Second.String() {
		return h, nil, left("%s is being handed over by another plan, or that was killed in the middle: run that one again, or delete ConfigMap %s/%s if Service %.300s is gone",
			a, found.Namespace, found.Name, found.Data["first"])
	}
	h.Nonce, h.UID = found.Data["nonce"], types.UID(found.Data["uid"])
	return h, found, nil
}

// begin records a handover, or goes on with the one that is recorded, and returns when the API
// server keeps the address for the two Services. uid is that of a proven second Service, or empty.
func (m Mover) begin(ctx context.Context, i Item, a netip.Addr, uid types.UID) (h handover, err error) {
	for range tries {
		var found *corev1.ConfigMap
		if h, found, err = m.recorded(ctx, i, a); err != nil {
			return h, err
		}
		switch {
		case found == nil:
			h.Nonce, h.UID = rand.Text(), uid
			err = batch.Guarded(ctx, func() error {
				return m.Client.Create(ctx, h.configMap(), client.FieldOwner(v1alpha1.ManagerRenumbering))
			})
		case uid != "" && h.UID != uid:
			h.UID = uid
			next := h.configMap()
			next.ResourceVersion = found.ResourceVersion
			err = batch.Guarded(ctx, func() error { return m.Client.Update(ctx, next, client.FieldOwner(v1alpha1.ManagerRenumbering)) })
		}
		switch {
		case errors.Is(err, batch.ErrMoved):
		case err != nil:
			return h, fmt.Errorf("recording that %s is handed over, in ConfigMap %s/%s: %w", a, metav1.NamespaceSystem, recordName(a), err)
		default:
			return h, m.guard(ctx, a)
		}
	}
	return h, fmt.Errorf("another client writes ConfigMap %s/%s all the time", metav1.NamespaceSystem, recordName(a))
}

// end removes the record.
func (m Mover) end(ctx context.Context, a netip.Addr) error {
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: recordName(a)}}
	if err := batch.Retry(ctx, func() error { return client.IgnoreNotFound(m.Client.Delete(ctx, record)) }); err != nil {
		return fmt.Errorf("deleting ConfigMap %s/%s, the record that %s was handed over: %w", record.Namespace, record.Name, a, err)
	}
	return nil
}

// guardedWithin is how long an API server may take to follow a new policy: it looks every second.
const guardedWithin = 20 * time.Second

// guard has the API server keep an address for the two Services of its record, and waits until it
// does: until it refuses the address to a third one.
func (m Mover) guard(ctx context.Context, a netip.Addr) error {
	probe := upstream.NewIPAddress(a, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: v1alpha1.HandoverName})
	created := false
	for begun := m.Clock.Now(); ; {
		err := m.Client.Create(ctx, probe.DeepCopy(), client.DryRunAll)
		switch {
		case apierrors.IsForbidden(err) && strings.Contains(err.Error(), v1alpha1.HandoverName):
			if created { // other API servers look for new policies in their own time
				return batch.Sleep(ctx, 2*time.Second)
			}
			return nil
		case apierrors.IsForbidden(err):
			return fmt.Errorf("trying whether %s is kept from other Services: %w", a, err)
		case m.Clock.Since(begun) > guardedWithin:
			return left("the API server does not keep its address from other Services while it is handed over: ValidatingAdmissionPolicy %s has no effect (last answer: %v)", v1alpha1.HandoverName, err)
		}
		now, err := m.ensurePolicy(ctx)
		if err != nil {
			return err
		}
		created = created || now
		if err := batch.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// ensurePolicy creates the policy and its binding if they are not there, and reports that.
func (m Mover) ensurePolicy(ctx context.Context) (created bool, err error) {
	for _, o := range []client.Object{handoverPolicy(), handoverBinding()} {
		err := batch.Retry(ctx, func() error { return m.Client.Create(ctx, o, client.FieldOwner(v1alpha1.ManagerRenumbering)) })
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return created, fmt.Errorf("creating %T %s, which keeps an address from other Services while it is handed over: %w", o, v1alpha1.HandoverName, err)
		}
		created = created || err == nil
	}
	return created, nil
}

// handoverPolicy refuses an address that is handed over to all but the two Services. An error in it
// refuses nothing: guard asks whether it works.
func handoverPolicy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HandoverName},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionregistrationv1.Ignore),
			ParamKind:     &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"networking.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"ipaddresses"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: `object.metadata.name != params.data.address || has(object.spec.parentRef.namespace) && ` +
					`[params.data.first, params.data.second].exists(s, s == object.spec.parentRef.namespace + "/" + object.spec.parentRef.name)`,
				Message: "this moment kubectl clusterip renumber hands the address over from one Service to another: try again",
				Reason:  new(metav1.StatusReasonForbidden),
			}},
		},
	}
}

func handoverBinding() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HandoverName},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: v1alpha1.HandoverName,
			ParamRef: &admissionregistrationv1.ParamRef{
				Namespace: metav1.NamespaceSystem, Selector: &metav1.LabelSelector{MatchLabels: handovers},
				ParameterNotFoundAction: new(admissionregistrationv1.AllowAction),
			},
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
}

// tidy removes records of Services that do not exist any more, and the policy with the last record.
func (m Mover) tidy(ctx context.Context) error {
	records := &corev1.ConfigMapList{}
	if err := m.Client.List(ctx, records, client.InNamespace(metav1.NamespaceSystem), handovers); err != nil {
		return fmt.Errorf("listing the records of handovers: %w", err)
	}
	rest := 0
	for i := range records.Items {
		gone, err := m.abandoned(ctx, &records.Items[i])
		if err != nil {
			return err
		}
		if !gone {
			rest++
			continue
		}
		if err := client.IgnoreNotFound(m.Client.Delete(ctx, &records.Items[i])); err != nil {
			return fmt.Errorf("deleting ConfigMap %s/%s: %w", records.Items[i].Namespace, records.Items[i].Name, err)
		}
	}
	if rest > 0 {
		return nil
	}
	for _, o := range []client.Object{handoverBinding(), handoverPolicy()} {
		if err := client.IgnoreNotFound(m.Client.Delete(ctx, o)); err != nil {
			return fmt.Errorf("deleting %T %s: %w", o, v1alpha1.HandoverName, err)
		}
	}
	return nil
}

// abandoned reports whether neither Service of a record exists.
func (m Mover) abandoned(ctx context.Context, record *corev1.ConfigMap) (bool, error) {
	for _, text := range []string{record.Data["first"], record.Data["second"]} {
		namespace, name, _ := strings.Cut(text, "/")
		s, err := objects.Get(ctx, m.Client, types.NamespacedName{Namespace: namespace, Name: name}, &corev1.Service{})
		if err != nil || s != nil {
			return false, err
		}
	}
	return true, nil
}
