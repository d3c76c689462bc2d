package kube

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// ErrNotServed says that the API server serves no known version of ServiceCIDR and IPAddress.
var ErrNotServed = errors.New("the API server does not serve networking.k8s.io ServiceCIDR and IPAddress; " +
	"use Kubernetes 1.33 or later, or start a 1.31 or 1.32 API server with " +
	"--runtime-config=networking.k8s.io/v1beta1=true")

// served are the versions that we know, best first. They are the same on the wire.
var served = []schema.GroupVersion{
	networkingv1.SchemeGroupVersion,
	{Group: networkingv1.GroupName, Version: "v1beta1"},
}

// Discover returns the version under which the API server serves both kinds, or an error that wraps
// ErrNotServed. Any other error means that the server could not be asked.
func Discover(d discovery.DiscoveryInterface) (schema.GroupVersion, error) {
	for _, gv := range served {
		switch all, err := serves(d, gv, "servicecidrs", "ipaddresses"); {
		case err != nil:
			return schema.GroupVersion{}, err
		case all:
			return gv, nil
		}
	}
	return schema.GroupVersion{}, ErrNotServed
}

// DiscoverPolicies reports whether ServiceCIDRPolicies are served. An error: it could not be asked.
func DiscoverPolicies(d discovery.DiscoveryInterface) (bool, error) {
	return serves(d, v1alpha1.GroupVersion, v1alpha1.Resource)
}

// serves reports whether the API server serves all the resources of a version.
func serves(d discovery.DiscoveryInterface, gv schema.GroupVersion, resources ...string) (bool, error) {
	list, err := d.ServerResourcesForGroupVersion(gv.String())
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("asking the API server for the resources of %s: %w", gv, err)
	}
	there := sets.New[string]()
	for _, r := range list.APIResources {
		there.Insert(r.Name)
	}
	return there.HasAll(resources...), nil
}

// NewScheme returns the kinds that the operator uses, ServiceCIDR and IPAddress under the version
// that is served. Only here does the version matter: the Go types are always those of v1.
func NewScheme(gv schema.GroupVersion) (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	s.AddKnownTypes(gv,
		&networkingv1.ServiceCIDR{}, &networkingv1.ServiceCIDRList{},
		&networkingv1.IPAddress{}, &networkingv1.IPAddressList{})
	metav1.AddToGroupVersion(s, gv)
	return s, errors.Join(corev1.AddToScheme(s), coordinationv1.AddToScheme(s), v1alpha1.AddToScheme(s))
}

// AllocatesFromBitmap reports whether the API server still allocates ClusterIPs from the bitmap in
// etcd, so that the operator writes the IPAddresses. Before 1.34 the feature gate
// MultiCIDRServiceAllocator decides that, whatever version of the API is served. An API server does
// not tell of its gates, but one that allocates from IPAddresses writes the default ServiceCIDR
// before it is ready.
func AllocatesFromBitmap(ctx context.Context, d discovery.ServerVersionInterface, live client.Reader) (bool, error) {
	server, err := d.ServerVersion()
	if err != nil {
		return false, fmt.Errorf("asking the API server for its version: %w", err)
	}
	if minor, ok := upstream.Minor(server); ok && minor >= upstream.FirstWithoutBitmap {
		return false, nil
	}
	cidr := &networkingv1.ServiceCIDR{}
	err = live.Get(ctx, client.ObjectKey{Name: v1alpha1.DefaultServiceCIDR}, cidr)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the default ServiceCIDR: %w", err)
	}
	return err != nil || !upstream.WrittenByAPIServer(cidr), nil
}
