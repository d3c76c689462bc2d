package framework

import (
	"context"
	"fmt"
	"net/netip"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/rest"
)

// ManagedByUpstream is what the API server's allocator writes into [networkingv1.LabelManagedBy].
const ManagedByUpstream = "ipallocator.k8s.io"

// ServiceOption changes a Service under construction.
type ServiceOption func(*corev1.Service)

// NewService builds a Service of type ClusterIP with port 80, in the cluster's default family.
func NewService(namespace, name string, options ...ServiceOption) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeClusterIP,
			Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
	for _, option := range options {
		option(service)
	}
	return service
}

// Numbered builds Services called name-0, name-1 and so on, for CreateServices.
func Numbered(namespace, name string, options ...ServiceOption) func(i int) *corev1.Service {
	return func(i int) *corev1.Service { return NewService(namespace, fmt.Sprint(name, "-", i), options...) }
}

// WithClusterIPs asks for fixed addresses, at most one of each family.
func WithClusterIPs(addresses ...string) ServiceOption {
	return func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = addresses[0], addresses }
}

// WithFamilies asks for IP families; the first is the primary one.
func WithFamilies(families ...corev1.IPFamily) ServiceOption {
	return func(s *corev1.Service) { s.Spec.IPFamilies = families }
}

// PreferDualStack asks for addresses of both families where the cluster has them.
func PreferDualStack() ServiceOption { return withFamilyPolicy(corev1.IPFamilyPolicyPreferDualStack) }

// RequireDualStack asks for addresses of both families or a refusal.
func RequireDualStack() ServiceOption { return withFamilyPolicy(corev1.IPFamilyPolicyRequireDualStack) }

func withFamilyPolicy(policy corev1.IPFamilyPolicy) ServiceOption {
	return func(s *corev1.Service) { s.Spec.IPFamilyPolicy = &policy }
}

// Headless makes a Service that gets no address.
func Headless() ServiceOption { return WithClusterIPs(corev1.ClusterIPNone) }

// ExternalName makes a Service that is an alias of a DNS name and gets no address.
func ExternalName(host string) ServiceOption {
	return func(s *corev1.Service) { s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, host }
}

// WithType makes a Service of another type.
func WithType(serviceType corev1.ServiceType) ServiceOption {
	return func(s *corev1.Service) { s.Spec.Type = serviceType }
}

// WithLabel sets a label of a Service.
func WithLabel(key, value string) ServiceOption {
	return func(s *corev1.Service) { metav1.SetMetaDataLabel(&s.ObjectMeta, key, value) }
}

// NewServiceCIDR builds a ServiceCIDR of one range, or of two of different families.
func NewServiceCIDR(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	}
}

// IPAddressOption changes an IPAddress under construction.
type IPAddressOption func(*networkingv1.IPAddress)

// NewIPAddress builds the IPAddress that the API server's allocator would write for a Service,
// labels included. It panics if the address is none.
func NewIPAddress(address, namespace, service string, options ...IPAddressOption) *networkingv1.IPAddress {
	ip := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: address,
			Labels: map[string]string{
				networkingv1.LabelIPAddressFamily: string(FamilyOf(address)),
				networkingv1.LabelManagedBy:       ManagedByUpstream,
			},
		},
		Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: namespace, Name: service},
		},
	}
	for _, option := range options {
		option(ip)
	}
	return ip
}

// FamilyOf returns the family of an address.
func FamilyOf(address string) corev1.IPFamily {
	if netip.MustParseAddr(address).Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// ManagedBy names another manager of an IPAddress.
func ManagedBy(manager string) IPAddressOption {
	return WithIPLabel(networkingv1.LabelManagedBy, manager)
}

// WithIPLabel sets a label of an IPAddress.
func WithIPLabel(key, value string) IPAddressOption {
	return func(ip *networkingv1.IPAddress) { metav1.SetMetaDataLabel(&ip.ObjectMeta, key, value) }
}

// WithParent points an IPAddress at something that may be no Service.
func WithParent(parent networkingv1.ParentReference) IPAddressOption {
	return func(ip *networkingv1.IPAddress) { ip.Spec.ParentRef = &parent }
}

// CreateServices creates the Services build(0) to build(n-1) with some workers and returns what the
// API server made of them, in order. It stops at the first refusal. build is called concurrently.
func CreateServices(
	ctx context.Context, client kubernetes.Interface, n, workers int, build func(i int) *corev1.Service,
) ([]*corev1.Service, error) {
	created := make([]*corev1.Service, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range n {
		group.Go(func() (err error) {
			service := build(i)
			created[i], err = client.CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("creating Service %s/%s: %w", service.Namespace, service.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return created, nil
}

// NetworkingFor returns a client for IPAddresses and ServiceCIDRs that takes and gives v1 objects
// and speaks version, "v1" or "v1beta1", on the wire.
func NetworkingFor(config *rest.Config, version string) (networkingv1client.NetworkingV1Interface, error) {
	served := schema.GroupVersion{Group: networkingv1.GroupName, Version: version}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, served)
	scheme.AddKnownTypes(served,
		&networkingv1.IPAddress{}, &networkingv1.IPAddressList{},
		&networkingv1.ServiceCIDR{}, &networkingv1.ServiceCIDRList{})

	config = rest.CopyConfig(config)
	config.APIPath = "/apis"
	config.GroupVersion = &served
	config.WarningHandler = rest.NoWarnings{} // that v1beta1 is deprecated is why this function exists
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the client of %s: %w", served, err)
	}
	return networkingv1client.New(client), nil
}
