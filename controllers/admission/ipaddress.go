package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/ledger"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

// IPAddressGuard refuses users the deletion of an IPAddress while its Service lives: between the deletion and the repair, another
// Service could be given the address. All fields are required; it is safe for concurrent use. Where it lacks information it lets the
// request pass.
type IPAddressGuard struct {
	// Live reads Services from the API server itself, so that nobody is refused because the cache is late.
	Live   client.Reader
	Ledger *ledger.Ledger
	// Username is the operator's own.
	Username string
}

var _ admission.Handler = (*IPAddressGuard)(nil)

// Handle implements admission.Handler.
func (g *IPAddressGuard) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Delete || trusted(req.AdmissionRequest, g.Username) || !g.Ledger.Synced() {
		return admission.Allowed("")
	}
	w, err := g.gather(ctx, req)
	if err != nil {
		log.FromContext(ctx).Error(err, "Letting the deletion of an IPAddress pass unseen", "address", req.Name, "user", req.UserInfo.Username)
		return admission.Allowed("")
	}
	if refusal := guardIPAddress(w); refusal != "" {
		return admission.Denied(refusal)
	}
	return admission.Allowed("")
}

// deletion is everything that is known about the deletion of an IPAddress.
type deletion struct {
	address netip.Addr
	// managedBy, purpose, serviceCIDR and serviceUID are what the object says of itself, parent the Service that it names.
	managedBy, purpose, serviceCIDR string
	serviceUID                      types.UID
	parent                          types.NamespacedName
	// services are the parent and all Services that the books know to hold the address, as far as they exist.
	services []*corev1.Service
}

// guardIPAddress returns why an IPAddress must not be deleted, empty if it may.
func guardIPAddress(d deletion) string {
	for _, s := range d.services {
		name := nameOf(s)
		switch {
		case !s.DeletionTimestamp.IsZero():
		case d.guardsClusterIP(name) && d.heldBy(s):
			return fmt.Sprintf("IPAddress %s belongs to Service %s, which is in use; delete the Service, and its address is free", d.address, name)
		case d.guardsAdditional(s, name):
			return fmt.Sprintf("IPAddress %s is an additional address of Service %s from ServiceCIDR %s; "+
				"remove %s from the annotation %s of the Service, or delete the Service, and it is free", d.address, name, d.serviceCIDR, d.serviceCIDR, v1alpha1.AnnotationAdditionalFrom)
		}
	}
	return ""
}

// guardsClusterIP reports whether the IPAddress keeps the address for a Service that has it. One that names no Service with this address
// is broken, or in the Service's way: the API server's repair says so and waits for somebody to delete it, which is the way out.
func (d deletion) guardsClusterIP(service types.NamespacedName) bool {
	if d.managedBy != v1alpha1.ManagedByAPIServer && d.managedBy != "" {
		return d.parent == service
	}
	return slices.ContainsFunc(d.services, func(s *corev1.Service) bool { return nameOf(s) == d.parent && d.heldBy(s) })
}

// heldBy reports whether a Service has the address in its spec.
func (d deletion) heldBy(s *corev1.Service) bool {
	return slices.Contains(ledger.ClusterIPs(s), d.address)
}

func nameOf(s *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// guardsAdditional reports whether the IPAddress is an additional address that the Service has by right and still asks for.
func (d deletion) guardsAdditional(s *corev1.Service, name types.NamespacedName) bool {
	return d.managedBy == v1alpha1.ManagedByOperator && d.purpose == v1alpha1.PurposeAdditional &&
		d.parent == name && d.serviceUID == s.UID && steering.WishOf(s).Keeps(d.serviceCIDR, d.address.Is4())
}

// gather reads what a deletion is about.
func (g *IPAddressGuard) gather(ctx context.Context, req admission.Request) (deletion, error) {
	ip := &networkingv1.IPAddress{}
	if err := json.Unmarshal(req.OldObject.Raw, ip); err != nil {
		return deletion{}, fmt.Errorf("reading the IPAddress of the request: %w", err)
	}
	d, err := newDeletion(ip)
	if err != nil {
		return d, err
	}
	services := g.Ledger.Claims(d.address)
	if d.parent.Name != "" && !slices.Contains(services, d.parent) {
		services = append(services, d.parent)
	}
	for _, name := range services {
		s := &corev1.Service{}
		switch err := g.Live.Get(ctx, name, s); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return d, fmt.Errorf("reading Service %s: %w", name, err)
		default:
			d.services = append(d.services, s)
		}
	}
	return d, nil
}

// newDeletion reads an IPAddress. The error is for a name that is no address, which the API server does not accept.
func newDeletion(ip *networkingv1.IPAddress) (deletion, error) {
	d := deletion{
		managedBy: ip.Labels[networkingv1.LabelManagedBy], purpose: ip.Labels[v1alpha1.LabelPurpose], parent: upstream.Service(ip),
		serviceCIDR: ip.Annotations[v1alpha1.AnnotationServiceCIDR], serviceUID: types.UID(ip.Annotations[v1alpha1.AnnotationServiceUID]),
	}
	var err error
	if d.address, err = netip.ParseAddr(ip.Name); err != nil {
		return d, fmt.Errorf("reading the name of an IPAddress: %w", err)
	}
	return d, nil
}
