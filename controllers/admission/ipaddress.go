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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

// IPAddressGuard refuses users the deletion of an IPAddress while its Service lives, for between the deletion and the repair another
// Service could be given the address; and changes by which it would no longer be the IPAddress of its Service. All fields are required;
// it is safe for concurrent use. Where it lacks information it lets the request pass.
type IPAddressGuard struct {
	// Live reads Services from the API server itself, so that nobody is refused because the cache is late.
	Live  client.Reader
	Index *addressindex.Index
	// Username is the operator's own.
	Username string
}

var _ admission.Handler = (*IPAddressGuard)(nil)

// Handle implements admission.Handler.
func (g *IPAddressGuard) Handle(ctx context.Context, req admission.Request) admission.Response {
	if trusted(req.AdmissionRequest, g.Username) || !g.Index.Synced() {
		return admission.Allowed("")
	}
	refusal, err := g.refusal(ctx, req)
	if err != nil {
		log.FromContext(ctx).Error(err, "Letting a request for an IPAddress pass unseen",
			"operation", req.Operation, "address", req.Name, "user", req.UserInfo.Username)
		return admission.Allowed("")
	}
	if refusal != "" {
		return admission.Denied(refusal)
	}
	return admission.Allowed("")
}

// refusal says why a request is refused, empty if it is not.
func (g *IPAddressGuard) refusal(ctx context.Context, req admission.Request) (string, error) {
	before, err := readIPAddress(req.OldObject.Raw)
	if err != nil {
		return "", err
	}
	in := guardInputs{ipAddress: before}
	if req.Operation == admissionv1.Update {
		after, err := readIPAddress(req.Object.Raw)
		if err != nil || after == before {
			return "", err
		}
		in.after = &after
	}
	if in.services, err = g.services(ctx, before); err != nil {
		return "", err
	}
	return guardIPAddress(in), nil
}

// ipAddress is what an IPAddress says of itself, as far as it tells whose the address is.
type ipAddress struct {
	address                         netip.Addr
	managedBy, purpose, serviceCIDR string
	serviceUID                      types.UID
	// parent is the Service that it names.
	parent types.NamespacedName
}

// guardInputs is everything that is known about the deletion or the change of an IPAddress.
type guardInputs struct {
	ipAddress
	// after is what it is to say, nil for a deletion.
	after *ipAddress
	// services are the parent and all Services that the address index knows to hold the address, as far as they exist.
	services []*corev1.Service
}

// guardIPAddress returns why an IPAddress must not be deleted or changed, empty if it may. A change that makes it the API server's, or leaves it that,
// does no harm to a ClusterIP.
func guardIPAddress(in guardInputs) string {
	for _, s := range in.services {
		name := nameOf(s)
		switch {
		case !s.DeletionTimestamp.IsZero():
		case in.guardsClusterIP(name) && in.heldBy(s) && (in.after == nil || in.after.managedBy != v1alpha1.ManagedByAPIServer):
			return in.refuse(fmt.Sprintf("belongs to Service %s, which is in use", name), "delete the Service, and its address is free")
		case in.guardsAdditional(s, name):
			return in.refuse(fmt.Sprintf("is an additional address of Service %s from ServiceCIDR %s", name, in.serviceCIDR), fmt.Sprintf(
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

// guardsClusterIP reports whether the IPAddress keeps the address for a Service that has it. One that names no Service with this address
// is broken, or in the Service's way: the API server's repair says so and waits for somebody to delete it, which is the way out.
func (in guardInputs) guardsClusterIP(service types.NamespacedName) bool {
	if in.managedBy != v1alpha1.ManagedByAPIServer && in.managedBy != "" {
		return in.parent == service
	}
	return slices.ContainsFunc(in.services, func(s *corev1.Service) bool { return nameOf(s) == in.parent && in.heldBy(s) })
}

// heldBy reports whether a Service has the address in its spec.
func (in guardInputs) heldBy(s *corev1.Service) bool {
	return slices.Contains(addressindex.ClusterIPs(s), in.address)
}

func nameOf(s *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// guardsAdditional reports whether the IPAddress is an additional address that the Service has by right and still asks for.
func (in guardInputs) guardsAdditional(s *corev1.Service, name types.NamespacedName) bool {
	return in.managedBy == v1alpha1.ManagedByOperator && in.purpose == v1alpha1.PurposeAdditional &&
		in.parent == name && in.serviceUID == s.UID && steering.AdditionalRequestOf(s).Keeps(in.serviceCIDR, in.address.Is4())
}

// services reads the Services that have to do with an IPAddress.
func (g *IPAddressGuard) services(ctx context.Context, ip ipAddress) ([]*corev1.Service, error) {
	names := g.Index.Claims(ip.address)
	if ip.parent.Name != "" && !slices.Contains(names, ip.parent) {
		names = append(names, ip.parent)
	}
	var services []*corev1.Service
	for _, name := range names {
		s, err := objects.Get(ctx, g.Live, name, &corev1.Service{})
		if err != nil {
			return nil, err
		}
		if s != nil {
			services = append(services, s)
		}
	}
	return services, nil
}

// readIPAddress reads the IPAddress of a request. A name that is no address is an error, for the API server accepts none.
func readIPAddress(raw []byte) (ipAddress, error) {
	ip := &networkingv1.IPAddress{}
	if err := json.Unmarshal(raw, ip); err != nil {
		return ipAddress{}, fmt.Errorf("reading the IPAddress of the request: %w", err)
	}
	address, err := netip.ParseAddr(ip.Name)
	if err != nil {
		return ipAddress{}, fmt.Errorf("reading the name of an IPAddress: %w", err)
	}
	return ipAddress{
		address: address, parent: upstream.Service(ip),
		managedBy: ip.Labels[networkingv1.LabelManagedBy], purpose: ip.Labels[v1alpha1.LabelPurpose],
		serviceCIDR: ip.Annotations[v1alpha1.AnnotationServiceCIDR], serviceUID: types.UID(ip.Annotations[v1alpha1.AnnotationServiceUID]),
	}, nil
}
