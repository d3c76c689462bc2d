package ipaddress

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

// world is everything that is known about one address. decide reads nothing else.
type world struct {
	now     time.Time
	address netip.Addr
	// object is the IPAddress, nil without one.
	object *object
	// claims are the Services that hold the address, the rightful owner first: see byRight.
	claims []claim
	// parent is the Service that object names, nil when there is none.
	parent *claim
	// offered: some ServiceCIDR has the address.
	offered bool
	// bitmap: the API server allocates from the bitmap in etcd and writes no IPAddress, so we do.
	bitmap bool
}

// object is what matters of an IPAddress.
type object struct {
	uid       types.UID
	version   string
	created   time.Time
	managedBy string
	// signed: an API server that allocates from IPAddresses wrote it. Only a live read tells: the cache drops the signature.
	signed bool
	family string
	// deleting: it was deleted, and a finalizer holds it. It is no use any more and cannot be changed.
	deleting bool
	// service is the parent if it is a Service, and zero otherwise.
	service types.NamespacedName
}

// claim is what matters of a Service.
type claim struct {
	name         types.NamespacedName
	uid          types.UID
	created      time.Time
	externalName bool
	holds        bool
}

// byRight orders claims: who held the address first keeps it. Names only break the tie of one second.
func byRight(a, b claim) int {
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name.String(), b.name.String()))
}

func newObject(o *networkingv1.IPAddress) *object {
	return &object{
		uid: o.UID, version: o.ResourceVersion, created: o.CreationTimestamp.Time,
		managedBy: o.Labels[networkingv1.LabelManagedBy], family: o.Labels[networkingv1.LabelIPAddressFamily],
		deleting: !o.DeletionTimestamp.IsZero(), service: upstream.Service(o), signed: upstream.WrittenByAPIServer(o),
	}
}

func newClaim(s *corev1.Service, holds bool) claim {
	return claim{
		name: types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, uid: s.UID, created: s.CreationTimestamp.Time,
		externalName: s.Spec.Type == corev1.ServiceTypeExternalName, holds: holds,
	}
}

// ours reports whether the object belongs to the API server's allocator.
func (o *object) ours() bool { return o.managedBy == v1alpha1.ManagedByAPIServer }

// foreign reports whether somebody else said that the object is theirs.
func (o *object) foreign() bool { return o.managedBy != "" && !o.ours() }

// owner is the Service that should be named by the IPAddress, nil without any claim.
func (w world) owner() *claim {
	if len(w.claims) == 0 {
		return nil
	}
	return &w.claims[0]
}

// named reports whether the object names this Service.
func (o *object) named(c *claim) bool { return c != nil && o.service == c.name }

// changedHands reports whether one Service holds the address and the object still names one that does not.
func (w world) changedHands() bool {
	return w.object.ours() && len(w.claims) == 1 && !w.object.named(w.owner()) && (w.parent == nil || !w.parent.holds)
}

func (w world) labelled() bool {
	return w.object.ours() && w.object.family == upstream.Family(w.address)
}

// underway is how long the Service of an IPAddress may still take to be written, in bitmap mode. We write ours after their
// Services; an API server that the cluster is being upgraded to writes its own before.
func (w world) underway() time.Duration {
	if !w.object.signed {
		return 0
	}
	return orphanGrace - w.age()
}

func (w world) age() time.Duration { return w.now.Sub(w.object.created) }

func sortClaims(claims []claim) { slices.SortFunc(claims, byRight) }
