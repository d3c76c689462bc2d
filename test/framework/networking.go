package framework

import (
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/rest"
)

// NetworkingFor returns a client for IPAddresses and ServiceCIDRs that takes and gives v1 objects and speaks the given
// version of networking.k8s.io on the wire, "v1" or "v1beta1".
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
