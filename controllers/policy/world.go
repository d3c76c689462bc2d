package policy

import (
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

// world are the inputs of decide: everything that is known about one address.
type world struct {
	now     time.Time
	address netip.Addr
	// object is the IPAddress, whoever's; nil without one.
	object *object
	// claimed: a Service has the address in its spec.
	claimed bool
	// covered: some ServiceCIDR has the address; offered: one that is not being deleted.
	covered, offered bool
	// reservation is the one that the address belongs to, nil without one.
	reservation *steering.Reservation
	// rest is who had the address until a short while ago, nil when it does not cool.
	rest *addressindex.CoolDown
	// coolDown is how long the address cools, in the name of the policy cooler; 0 for not at all.
	coolDown time.Duration
	cooler   owner
}

// owner is the policy for which an IPAddress stands.
type owner struct {
	name string
	uid  types.UID
}

// kind says whose business an IPAddress is.
type kind int

const (
	alien kind = iota // not the Keeper's
	kept              // a reservation, a cooling address, or something of ours with an unknown purpose
)

// object is what matters of an IPAddress.
type object struct {
	uid     types.UID
	created time.Time
	// deleting: it was deleted, and a finalizer holds it. It is no use any more and cannot be changed.
	deleting bool
	kind     kind
	// policy is the parent if it is a policy; owners are the UIDs of those who take the object with them when they go.
	policy              string
	owners              []types.UID
	labels, annotations map[string]string
}

func newObject(o *networkingv1.IPAddress) *object {
	out := &object{
		uid: o.UID, created: o.CreationTimestamp.Time, deleting: !o.DeletionTimestamp.IsZero(),
		kind: kindOf(o), policy: upstream.Policy(o), labels: o.Labels, annotations: o.Annotations,
	}
	for _, ref := range o.OwnerReferences {
		out.owners = append(out.owners, ref.UID)
	}
	return out
}

// kindOf knows an IPAddress of ours by its parent, which nobody can change, or by its labels. One that names a Service is that Service's, whatever
// somebody wrote into the labels.
func kindOf(o *networkingv1.IPAddress) kind {
	ours := o.Labels[networkingv1.LabelManagedBy] == v1alpha1.ManagedByOperator && o.Labels[v1alpha1.LabelPurpose] != ""
	if upstream.Policy(o) != "" || ours && upstream.Service(o).Name == "" {
		return kept
	}
	return alien
}

// unknown reports whether nobody knows what an IPAddress of ours is for.
func (o *object) unknown() bool {
	return o.policy == "" && o.purpose() != v1alpha1.PurposeReservation && o.purpose() != v1alpha1.PurposeCooling
}

// purpose is what the label says, true or not.
func (o *object) purpose() string { return o.labels[v1alpha1.LabelPurpose] }

// rest reads who had a cooling address, and when it was freed.
func (o *object) rest() addressindex.CoolDown {
	return addressindex.ReadCoolDown(o.annotations, o.created)
}

// reserves reports whether a reservation stands at the address.
func (w world) reserves() bool {
	return w.object != nil && w.object.kind == kept && w.object.purpose() != v1alpha1.PurposeCooling
}
