package additional

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/wording"
)

// Reasons and action of the events on a Service.
const (
	reasonAllocated    = "AdditionalIPAllocated"
	reasonNotAllocated = "AdditionalIPNotAllocated"
	actionAllocate     = "AdditionalIPAllocation"
)

// noteLimit is how many bytes the API server takes for the note of an event.
const noteLimit = 1024

// tell sends the complaints that are news to the Service, in one event: client-go takes two of the same reason for one, and keeps the note of either.
func (r *Reconciler) tell(w world, complaints []string) {
	var news []string
	for _, complaint := range complaints {
		if r.patience.news(w.name, string(w.service.uid)+complaint) {
			news = append(news, complaint)
		}
	}
	if len(news) > 0 {
		r.Events.Eventf(w.reference(), nil, corev1.EventTypeWarning, reasonNotAllocated, actionAllocate,
			"%s", wording.Cut("No additional address: "+strings.Join(news, "; "), noteLimit))
	}
}

// tellAllocated says which address the Service got. The IPAddress is the related object, without which client-go would take the events
// about two addresses of one Service for one.
func (r *Reconciler) tellAllocated(w world, at slot, a netip.Addr) {
	ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: a.String()}}
	r.Events.Eventf(w.reference(), ip, corev1.EventTypeNormal, reasonAllocated, actionAllocate,
		"Additional address %s from ServiceCIDR %s", a, at.serviceCIDR)
}

// reference is the Service as far as an event needs it.
func (w world) reference() runtime.Object {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.name.Namespace, Name: w.name.Name, UID: w.service.uid}}
}
