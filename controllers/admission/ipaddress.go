package admission

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// IPAddressGuard refuses users the deletion of an IPAddress while its Service lives, because
// another Service could get the address before the repair; and changes after which it would not be
// the IPAddress of its Service. All fields are required; it is safe for concurrent use. Where it
// lacks information it lets the request pass.
type IPAddressGuard struct {
	// Live reads Services from the API server itself, so that a late cache causes no refusal.
	Live  client.Reader
	Index *addressindex.Index
	// Username is the operator's own.
	Username string
}

// Handle implements admission.Handler.
func (g *IPAddressGuard) Handle(ctx context.Context, req admission.Request) admission.Response {
	if trusted(req, g.Username) || !g.Index.Synced() {
		return admission.Allowed("")
	}
	refusal, err := g.refusal(ctx, req)
	return respond(ctx, refusal, nil, err)
}

func (g *IPAddressGuard) refusal(ctx context.Context, req admission.Request) (string, error) {
	old, changed, err := objectsOf[networkingv1.IPAddress](req.AdmissionRequest)
	if err != nil {
		return "", err
	}
	in := guardInputs{}
	if in.ipAddress, err = newIPAddress(old); err != nil {
		return "", err
	}
	if changed != nil {
		after, err := newIPAddress(changed)
		if err != nil || after == in.ipAddress {
			return "", err
		}
		in.after = &after
	}
	if in.services, err = g.services(ctx, in.ipAddress); err != nil {
		return "", err
	}
	return guardIPAddress(in), nil
}

// ipAddress is what an IPAddress says of itself, as far as it tells whose the address is.
type ipAddress struct {
	address                         netip.Addr
	managedBy, purpose, serviceCIDR string
	serviceUID                      types.UID
	// former: renumbering holds the address for its Service.
	former bool
	// parent is the Service that it names.
	parent types.NamespacedName
}

// guardInputs is everything that is known about the deletion or the change of an IPAddress.
type guardInputs struct {
	ipAddress
	// after is what it is to say, nil for a deletion.
	after *ipAddress
	// services are the parent and the Services that hold the address by the index, if they exist.
	services []claimant
}

// claimant is a Service that may have the address of an IPAddress.
type claimant struct {
	name types.NamespacedName
	uid  types.UID
	// going: it is being deleted. holds: the address is one of its ClusterIPs.
	going, holds bool
	asks         steering.AdditionalRequest
}

func newClaimant(s *corev1.Service, a netip.Addr) claimant {
	return claimant{
		name: client.ObjectKeyFromObject(s), uid: s.UID, going: !s.DeletionTimestamp.IsZero(),
		holds: slices.Contains(addressindex.ClusterIPs(s), a), asks: steering.AdditionalRequestOf(s),
	}
}

// guardIPAddress returns why an IPAddress must not be deleted or changed, empty if it may. A change
// that makes or leaves it the API server's does no harm to a ClusterIP.
func guardIPAddress(in guardInputs) string {
	for _, s := range in.services {
		switch {
		case s.going, in.after == nil && in.purpose == v1alpha1.PurposeHandover: // renumbering gives the address to another Service of the same owner
		case in.guardsClusterIP(s) && s.holds && (in.after == nil || in.after.managedBy != v1alpha1.ManagedByAPIServer):
			return in.refuse(fmt.Sprintf("belongs to Service %s, which is in use", s.name), "delete the Service, and its address is free")
		case in.guardsFormer(s):
			return fmt.Sprintf("IPAddress %s is held for Service %s, which had the address before it was renumbered; `kubectl clusterip renumber` releases it when no client uses it "+
				"any more; to release it at once, take it out of the annotation %s of the Service", in.address, s.name, v1alpha1.AnnotationFormerIPs)
		case in.guardsAdditional(s):
			return in.refuse(fmt.Sprintf("is an additional address of Service %s from ServiceCIDR %s", s.name, in.serviceCIDR), fmt.Sprintf(
				"remove %s from the annotation %s of the Service, or delete the Service, and it is free", in.serviceCIDR, v1alpha1.AnnotationAdditionalFrom))
		}
	}
	return ""
}

// refuse says whose the address is, and what to do instead of the deletion.
func (in guardInputs) refuse(whose, remedy string) string {
	if in.after != nil {
		remedy = fmt.Sprintf("its labels %s and %s and the annotations of the operator stay as they are", networkingv1.LabelManagedBy, v1alpha1.LabelPurpose)
	}
	return fmt.Sprintf("IPAddress %s %s; %s", in.address, whose, remedy)
}

// guardsClusterIP reports whether the IPAddress keeps the address for a Service that has it. One
// that names no such Service is broken, or in the Service's way: the API server's repair reports it
// and waits until a user deletes it, which is the way out.
func (in guardInputs) guardsClusterIP(s claimant) bool {
	if in.managedBy != v1alpha1.ManagedByAPIServer && in.managedBy != "" {
		return in.parent == s.name
	}
	return slices.ContainsFunc(in.services, func(s claimant) bool { return s.name == in.parent && s.holds })
}

// guardsFormer reports whether the IPAddress holds a former address that the Service still lists.
// It lets renumbering make it an additional one of the Service, and release it while the Service
// has none and is to get this one back.
func (in guardInputs) guardsFormer(s claimant) bool {
	if !in.former || in.parent != s.name || s.holds || in.serviceUID != "" && in.serviceUID != s.uid || !s.asks.KeepsFormer(in.address) {
		return false
	}
	if in.after == nil || !in.after.former {
		return !s.asks.Renumbering
	}
	return in.after.managedBy != v1alpha1.ManagedByOperator || in.after.purpose != v1alpha1.PurposeAdditional || in.after.serviceUID != s.uid
}

// guardsAdditional reports whether the Service has the additional address by right and asks for it.
func (in guardInputs) guardsAdditional(s claimant) bool {
	return !in.former && in.managedBy == v1alpha1.ManagedByOperator && in.purpose == v1alpha1.PurposeAdditional &&
		in.parent == s.name && in.serviceUID == s.uid && s.asks.Keeps(in.serviceCIDR, allocator.FamilyOf(in.address))
}

func (g *IPAddressGuard) services(ctx context.Context, ip ipAddress) ([]claimant, error) {
	names := g.Index.Claims(ip.address)
	if ip.parent.Name != "" && !slices.Contains(names, ip.parent) {
		names = append(names, ip.parent)
	}
	var services []claimant
	for _, name := range names {
		s, err := objects.Get(ctx, g.Live, name, &corev1.Service{})
		if err != nil {
			return nil, err
		}
		if s != nil {
			services = append(services, newClaimant(s, ip.address))
		}
	}
	return services, nil
}

// newIPAddress reads an IPAddress. A name that is no address is an error, as the API server says.
func newIPAddress(ip *networkingv1.IPAddress) (ipAddress, error) {
	address, err := netip.ParseAddr(ip.Name)
	if err != nil {
		return ipAddress{}, fmt.Errorf("reading the name of an IPAddress: %w", err)
	}
	return ipAddress{
		address: address, parent: upstream.Service(ip), former: upstream.HeldAsFormer(ip),
		managedBy: ip.Labels[networkingv1.LabelManagedBy], purpose: ip.Labels[v1alpha1.LabelPurpose],
		serviceCIDR: ip.Annotations[v1alpha1.AnnotationServiceCIDR], serviceUID: types.UID(ip.Annotations[v1alpha1.AnnotationServiceUID]),
	}, nil
}
