//go:build linux

package flowtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Service describes a Service of one family together with its endpoints. The zero values of all but Name and Family are useful: a
// ClusterIP with TCP port 80 and no endpoints.
type Service struct {
	Name   string
	Family model.Family
	// Type defaults to ClusterIP, to LoadBalancer with LoadBalancerIPs, and to NodePort with NodePort.
	Type     corev1.ServiceType
	NodePort bool
	// Ports defaults to TCP port 80, unnamed, to TargetPort 8080.
	Ports []Port
	// LoadBalancerIPs are written into the status.
	LoadBalancerIPs []string
	IPMode          corev1.LoadBalancerIPMode
	ExternalIPs     []string
	SourceRanges    []string
	// InternalLocal and ExternalLocal are the traffic policies.
	InternalLocal, ExternalLocal bool
	// AffinitySeconds switches on sessionAffinity: ClientIP.
	AffinitySeconds int32
	Labels          map[string]string
	// Change is called with the object before it is created.
	Change func(*corev1.Service)
	// Endpoints come in one EndpointSlice, of all Ports. Further slices are made with CreateSlice.
	Endpoints []Endpoint
}

// Port is a port of a Service; its endpoints listen on TargetPort, by default 8080.
type Port struct {
	Name             string
	Protocol         model.Protocol
	Port, TargetPort uint16
}

func (s Service) ports() []Port {
	ports := slices.Clone(s.Ports)
	if len(ports) == 0 {
		ports = []Port{{}}
	}
	for i := range ports {
		ports[i].Protocol = cmp.Or(ports[i].Protocol, model.TCP)
		ports[i].Port, ports[i].TargetPort = cmp.Or(ports[i].Port, 80), cmp.Or(ports[i].TargetPort, 8080)
	}
	return ports
}

func (s Service) object(namespace string) *corev1.Service {
	object := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.Name, Labels: s.Labels},
		Spec: corev1.ServiceSpec{
			Type:                     s.kind(),
			IPFamilies:               []corev1.IPFamily{corev1.IPFamily(s.Family.String())},
			ExternalIPs:              s.ExternalIPs,
			LoadBalancerSourceRanges: s.SourceRanges,
		},
	}
	for _, p := range s.ports() {
		object.Spec.Ports = append(object.Spec.Ports, corev1.ServicePort{
			Name: p.Name, Protocol: corev1.Protocol(p.Protocol.String()), Port: int32(p.Port), TargetPort: intstr.FromInt32(int32(p.TargetPort))})
	}
	s.setPolicies(&object.Spec)
	if s.Change != nil {
		s.Change(object)
	}
	return object
}

func (s Service) kind() corev1.ServiceType {
	switch {
	case s.Type != "":
		return s.Type
	case len(s.LoadBalancerIPs) > 0:
		return corev1.ServiceTypeLoadBalancer
	case s.NodePort:
		return corev1.ServiceTypeNodePort
	default:
		return corev1.ServiceTypeClusterIP
	}
}

func (s Service) setPolicies(spec *corev1.ServiceSpec) {
	if s.InternalLocal {
		spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	}
	if s.ExternalLocal {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	if s.AffinitySeconds != 0 {
		spec.SessionAffinity = corev1.ServiceAffinityClientIP
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &s.AffinitySeconds}}
	}
}

// Create makes the Service, with its status, and its EndpointSlice.
func (w *Environment) Create(ctx context.Context, s Service) (*corev1.Service, error) {
	services := w.Cluster.Client().CoreV1().Services(w.Namespace)
	object, err := services.Create(ctx, s.object(w.Namespace), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating Service %s: %w", s.Name, err)
	}
	if len(s.LoadBalancerIPs) > 0 {
		object.Status.LoadBalancer.Ingress = ingress(s.IPMode, s.LoadBalancerIPs)
		if object, err = services.UpdateStatus(ctx, object, metav1.UpdateOptions{}); err != nil {
			return nil, fmt.Errorf("giving load balancer IPs to Service %s: %w", s.Name, err)
		}
	}
	if len(s.Endpoints) > 0 {
		err = w.CreateSlice(ctx, s, s.Name+"-1", s.Endpoints...)
	}
	return object, err
}

func ingress(mode corev1.LoadBalancerIPMode, ips []string) (all []corev1.LoadBalancerIngress) {
	for _, ip := range ips {
		i := corev1.LoadBalancerIngress{IP: ip}
		if mode != "" {
			i.IPMode = &mode
		}
		all = append(all, i)
	}
	return all
}

// SetLoadBalancerIPs replaces the load balancer IPs in the status of a Service.
func (w *Environment) SetLoadBalancerIPs(ctx context.Context, name string, ips ...string) error {
	services := w.Cluster.Client().CoreV1().Services(w.Namespace)
	object, err := services.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	object.Status.LoadBalancer.Ingress = ingress("", ips)
	_, err = services.UpdateStatus(ctx, object, metav1.UpdateOptions{})
	return err
}

// Update changes a Service, and tries again after a conflict.
func (w *Environment) Update(ctx context.Context, name string, change func(*corev1.Service)) (*corev1.Service, error) {
	services := w.Cluster.Client().CoreV1().Services(w.Namespace)
	object, err := services.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	change(object)
	return services.Update(ctx, object, metav1.UpdateOptions{})
}

// Delete deletes a Service.
func (w *Environment) Delete(ctx context.Context, name string) error {
	return w.Cluster.Client().CoreV1().Services(w.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// DeleteAll deletes all Services and EndpointSlices of the Environment.
func (w *Environment) DeleteAll(ctx context.Context) error {
	client := w.Cluster.Client()
	list, err := client.CoreV1().Services(w.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	errs := []error{client.DiscoveryV1().EndpointSlices(w.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})}
	for _, s := range list.Items {
		errs = append(errs, w.Delete(ctx, s.Name))
	}
	return errors.Join(errs...)
}

// Endpoint is an endpoint of an EndpointSlice, without the port. Its zero conditions are those of the API: ready.
type Endpoint struct {
	Addr netip.Addr
	// Node is its node's name, none by default.
	Node string
	// NotReady, Terminating: a terminating endpoint is still serving unless NotServing.
	NotReady, NotServing, Terminating bool
	// Zones and Nodes are topology hints.
	Zones, Nodes []string
}

// CreateSlice makes an EndpointSlice for a Service.
func (w *Environment) CreateSlice(ctx context.Context, s Service, name string, endpoints ...Endpoint) error {
	_, err := w.slices().Create(ctx, w.Slice(s, name, endpoints...), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating EndpointSlice %s: %w", name, err)
	}
	return nil
}

// SetEndpoints replaces the endpoints of the first EndpointSlice of a Service, and its ports by those of the Service as described.
func (w *Environment) SetEndpoints(ctx context.Context, s Service, endpoints ...Endpoint) error {
	_, err := w.slices().Update(ctx, w.Slice(s, s.Name+"-1", endpoints...), metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("changing the endpoints of %s: %w", s.Name, err)
	}
	return nil
}

// ChangeSlice creates or replaces an EndpointSlice.
func (w *Environment) ChangeSlice(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	_, err := w.slices().Update(ctx, slice, metav1.UpdateOptions{})
	return err
}

// DeleteSlice deletes an EndpointSlice.
func (w *Environment) DeleteSlice(ctx context.Context, name string) error {
	return w.slices().Delete(ctx, name, metav1.DeleteOptions{})
}

func (w *Environment) slices() discoveryclient.EndpointSliceInterface {
	return w.Cluster.Client().DiscoveryV1().EndpointSlices(w.Namespace)
}

// Slice builds an EndpointSlice for a Service.
func (w *Environment) Slice(s Service, name string, endpoints ...Endpoint) *discoveryv1.EndpointSlice {
	labels := map[string]string{discoveryv1.LabelServiceName: s.Name}
	maps.Copy(labels, s.Labels)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: w.Namespace, Name: name, Labels: labels},
		AddressType: discoveryv1.AddressType(s.Family.String()),
	}
	for _, p := range s.ports() {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
			Name: &p.Name, Protocol: new(corev1.Protocol(p.Protocol.String())), Port: new(int32(p.TargetPort))})
	}
	for _, e := range endpoints {
		slice.Endpoints = append(slice.Endpoints, e.object())
	}
	return slice
}

func (e Endpoint) object() discoveryv1.Endpoint {
	serving := !e.NotServing && (!e.NotReady || e.Terminating)
	object := discoveryv1.Endpoint{
		Addresses:  []string{e.Addr.String()},
		Conditions: discoveryv1.EndpointConditions{Ready: new(serving && !e.Terminating), Serving: &serving, Terminating: &e.Terminating},
	}
	if e.Node != "" {
		object.NodeName = &e.Node
	}
	if len(e.Zones)+len(e.Nodes) > 0 {
		object.Hints = &discoveryv1.EndpointHints{}
	}
	for _, zone := range e.Zones {
		object.Hints.ForZones = append(object.Hints.ForZones, discoveryv1.ForZone{Name: zone})
	}
	for _, node := range e.Nodes {
		object.Hints.ForNodes = append(object.Hints.ForNodes, discoveryv1.ForNode{Name: node})
	}
	return object
}

// CreateObject makes an EndpointSlice as it is.
func (w *Environment) CreateObject(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	_, err := w.slices().Create(ctx, slice, metav1.CreateOptions{})
	return err
}
