package replicas

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

const (
	// Label marks the Leases of replicas; its value is LabelValue.
	Label = v1alpha1.Prefix + "/replica"
	// LabelValue is the value of Label.
	LabelValue = "true"
	// Knows is the annotation of a replica's Lease that lists the UIDs of the Leases that its replica has reckoned with
	// since before it wrote them there.
	Knows = v1alpha1.Prefix + "/knows"
	// Lending is the annotation of a replica's Lease by which replicas borrow addresses of one another: a letter, in JSON.
	Lending = v1alpha1.Prefix + "/lending"
	// Serves is the annotation of a replica's Lease that says, with the value "true", that its replica hands out addresses by itself. Before that, others
	// settle what will be its own.
	Serves = v1alpha1.Prefix + "/serves"

	namePrefix = "clusterip-operator-replica-"
)

// lease is what the protocol says by a Lease object.
type lease struct {
	// id is who holds it.
	id string
	// uid tells it from another one of the same name, for ever.
	uid types.UID
	// version is another one after each renewal.
	version string
	// knows are the UIDs of the Leases that its holder reckons with, in order.
	knows []types.UID
	// lending is a letter; see lending.go.
	lending string
	// serves: the holder is sure of its shard, or about to be.
	serves bool
	// duration is how long the holder counts on it.
	duration time.Duration
}

// parse reads a Lease; false for one that is no replica's.
func parse(o *coordinationv1.Lease) (lease, bool) {
	id, ours := strings.CutPrefix(o.Name, namePrefix)
	if !ours || id == "" {
		return lease{}, false
	}
	l := lease{id: id, uid: o.UID, version: o.ResourceVersion, duration: longest, lending: o.Annotations[Lending], serves: o.Annotations[Serves] == "true"}
	if s := o.Spec.LeaseDurationSeconds; s != nil && *s > 0 {
		l.duration = min(time.Duration(*s)*time.Second, longest)
	}
	for uid := range strings.SplitSeq(o.Annotations[Knows], ",") {
		if uid = strings.TrimSpace(uid); uid != "" {
			l.knows = append(l.knows, types.UID(uid))
		}
	}
	slices.Sort(l.knows)
	return l, true
}

// object is the Lease to write; renewed is for people, no replica compares the clocks of two machines.
func (l lease) object(namespace string, renewed time.Time) *coordinationv1.Lease {
	// Rounded up: the others may wait longer than need be, never shorter.
	seconds := int32((l.duration + time.Second - 1) / time.Second)
	now := metav1.NewMicroTime(renewed)
	annotations := map[string]string{Knows: join(l.knows)}
	if l.lending != "" {
		annotations[Lending] = l.lending
	}
	if l.serves {
		annotations[Serves] = "true"
	}
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: namePrefix + l.id, UID: l.uid, ResourceVersion: l.version,
			Labels:      map[string]string{Label: LabelValue},
			Annotations: annotations,
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &l.id, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
}

func join(uids []types.UID) string {
	texts := make([]string, 0, len(uids))
	for _, uid := range uids {
		texts = append(texts, string(uid))
	}
	return strings.Join(texts, ",")
}

// String names a lease in errors.
func (l lease) String() string { return fmt.Sprintf("Lease %s%s", namePrefix, l.id) }
