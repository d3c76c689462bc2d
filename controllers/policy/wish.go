package policy

import (
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

// wish is the desired IPAddress.
type wish struct {
	owner       owner
	labels      map[string]string
	annotations map[string]string
}

func reserve(a netip.Addr, r steering.Reservation) *wish {
	return &wish{
		owner: owner{r.Policy, r.PolicyUID}, labels: labelsOf(a, v1alpha1.PurposeReservation),
		annotations: map[string]string{v1alpha1.AnnotationReservation: r.Name},
	}
}

func cool(a netip.Addr, r addressindex.CoolDown, by owner) *wish {
	return &wish{
		owner: by, labels: labelsOf(a, v1alpha1.PurposeCooling),
		annotations: map[string]string{
			v1alpha1.AnnotationLastService: r.Service.String(),
			v1alpha1.AnnotationReleased:    r.Released.UTC().Format(time.RFC3339Nano),
		},
	}
}

func labelsOf(a netip.Addr, purpose string) map[string]string {
	return map[string]string{
		networkingv1.LabelIPAddressFamily: upstream.Family(a),
		networkingv1.LabelManagedBy:       v1alpha1.ManagedByOperator,
		v1alpha1.LabelPurpose:             purpose,
	}
}

// differs says what has to be done to an object so that it is what is wanted. What another policy owns, or was kept for something
// else, is made anew: a parent is for ever, and of an annotation that means nothing any more nobody would know whose it is.
func (w *wish) differs(from *object) action {
	purpose := from.purpose()
	known := purpose == v1alpha1.PurposeReservation || purpose == v1alpha1.PurposeCooling
	switch {
	case from.policy != w.owner.name, known && purpose != w.labels[v1alpha1.LabelPurpose], from.ownedByAnother(w.owner.uid):
		return replace
	case !within(w.labels, from.labels), !within(w.annotations, from.annotations), !slices.Contains(from.owners, w.owner.uid):
		return relabel
	default:
		return leave
	}
}

// ownedByAnother: the garbage collector would take the object away with somebody else than this policy, as with one of the same name
// that was there before.
func (o *object) ownedByAnother(than types.UID) bool {
	return slices.ContainsFunc(o.owners, func(uid types.UID) bool { return uid != than })
}

// within reports whether all of want is in have.
func within(want, have map[string]string) bool {
	for key, value := range want {
		if have[key] != value {
			return false
		}
	}
	return true
}

// ipAddress is the object to create.
func (w *wish) ipAddress(a netip.Addr) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: a.String(), Labels: w.labels, Annotations: w.annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: policyKind, Name: w.owner.name, UID: w.owner.uid,
			}},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Group: v1alpha1.Prefix, Resource: v1alpha1.Resource, Name: w.owner.name,
		}},
	}
}

// policyKind is the kind of the policies in an API server.
const policyKind = "ServiceCIDRPolicy"
