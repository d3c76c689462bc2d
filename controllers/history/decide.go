package history

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/history"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// change is what an object has made of the owners of addresses.
type change struct{ ended, begun []history.Record }

// ofService says what a Service has made of them: before and now are nil where there is none,
// initial is for the first listing. Two UIDs are two Services, where the watch missed a deletion.
func ofService(before, now *corev1.Service, initial bool, at time.Time) (c change) {
	another := before == nil || now == nil || before.UID != now.UID
	had, has := clusterIPs(before), clusterIPs(now)
	for _, a := range had {
		switch {
		case another:
			c.ended = append(c.ended, lost(before, a, history.Deleted, at))
		case !slices.Contains(has, a):
			c.ended = append(c.ended, lost(before, a, changed(now), at))
		}
	}
	for _, a := range has {
		if !another && slices.Contains(had, a) {
			continue
		}
		r := record(now, a)
		switch {
		case initial:
			r.Came = history.Found
		case another:
			r.Came = history.Created
		default:
			r.Came, r.From = changed(now), history.At(at)
		}
		c.begun = append(c.begun, r)
	}
	return c
}

// record is that of a Service which has had an address since it was created.
func record(s *corev1.Service, a netip.Addr) history.Record {
	return history.Record{
		Address: a, Service: types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, UID: s.UID,
		Came: history.Found, From: history.At(s.CreationTimestamp.Time),
	}
}

func lost(s *corev1.Service, a netip.Addr, ended string, at time.Time) history.Record {
	r := record(s, a)
	r.Ended, r.To = ended, history.At(at)
	return r
}

// clusterIPs are the addresses of a Service, none without one.
func clusterIPs(s *corev1.Service) []netip.Addr {
	if s == nil {
		return nil
	}
	return addressindex.ClusterIPs(s)
}

// changed says what becomes of the addresses of a Service that is still there. Its owner may write
// the annotations too: it is a word for people, nothing depends on it.
func changed(s *corev1.Service) string {
	for _, name := range []string{v1alpha1.AnnotationRenumbering, v1alpha1.AnnotationFormerIPs} {
		if _, has := s.Annotations[name]; has {
			return history.Renumbered
		}
	}
	return history.Changed
}

// ofIPAddress is ofService for addresses beside the ClusterIPs of a Service.
func ofIPAddress(before, now *networkingv1.IPAddress, at time.Time) (c change) {
	had, hadOne := beside(before, at)
	has, hasOne := beside(now, at)
	if hadOne && hasOne && had.Service == has.Service && had.UID == has.UID && had.Came == has.Came {
		return c
	}
	if hadOne {
		had.Ended, had.To = history.Released, history.At(at)
		c.ended = append(c.ended, had)
	}
	if hasOne {
		c.begun = append(c.begun, has)
	}
	return c
}

// beside is the record of an IPAddress that keeps an address for a Service beside its ClusterIPs.
func beside(o *networkingv1.IPAddress, at time.Time) (r history.Record, ok bool) {
	// A second Service has its address as its ClusterIP, whatever holds its IPAddress for a moment.
	if o == nil || !upstream.OwnedByOperator(o) || upstream.Service(o).Name == "" || o.Labels[v1alpha1.LabelPurpose] == v1alpha1.PurposeSecond {
		return r, false
	}
	a, err := netip.ParseAddr(o.Name)
	r = history.Record{Address: a, Service: upstream.Service(o)}
	if !word(r.Service.Namespace) || !word(r.Service.Name) {
		return r, false
	}
	if uid := o.Annotations[v1alpha1.AnnotationServiceUID]; word(uid) {
		r.UID = types.UID(uid)
	}
	if upstream.HeldAsFormer(o) {
		r.Came, r.From = history.Former, history.At(at)
		if o.DeletionTimestamp != nil {
			r.From = history.At(o.DeletionTimestamp.Time)
		}
	} else {
		r.Came, r.From = history.Additional, history.At(o.CreationTimestamp.Time)
	}
	return r, err == nil
}

// word reports whether a text is such as names and UIDs of Services are: an IPAddress has whatever
// its writer wrote, and the API server takes most of it.
func word(text string) bool { return len(validation.IsDNS1123Label(text)) == 0 }
