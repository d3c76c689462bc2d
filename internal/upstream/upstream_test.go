package upstream

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
)

// The texts are those of Kubernetes, written out, so that a changed constant is noticed here.
func TestNewIPAddress(t *testing.T) {
	for _, tc := range []struct{ address, wantName, wantFamily string }{
		{"10.0.0.5", "10.0.0.5", "IPv4"}, {"fd00::5", "fd00::5", "IPv6"}, {"FD00:0::5", "fd00::5", "IPv6"}, {"fd00:0:0:1::", "fd00:0:0:1::", "IPv6"},
	} {
		want := &networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: tc.wantName, Labels: map[string]string{
				"ipaddress.kubernetes.io/ip-family": tc.wantFamily, "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
			}},
			Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "a"}},
		}
		got := NewIPAddress(netip.MustParseAddr(tc.address), types.NamespacedName{Namespace: "ns", Name: "a"})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.address, diff)
		}
		if back := Service(got); back.String() != "ns/a" {
			t.Errorf("%s is of Service %s", tc.address, back)
		}
	}
}

func TestService(t *testing.T) {
	for name, tc := range map[string]struct {
		ref  *networkingv1.ParentReference
		want string
	}{
		"a Service":               {&networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "a"}, "ns/a"},
		"nothing":                 {nil, "/"},
		"a gateway":               {&networkingv1.ParentReference{Group: "gateway.networking.k8s.io", Resource: "gateways", Namespace: "ns", Name: "a"}, "/"},
		"another kind's Services": {&networkingv1.ParentReference{Group: "serving.knative.dev", Resource: "services", Namespace: "ns", Name: "a"}, "/"},
		"a pod":                   {&networkingv1.ParentReference{Resource: "pods", Namespace: "ns", Name: "a"}, "/"},
	} {
		if got := Service(&networkingv1.IPAddress{Spec: networkingv1.IPAddressSpec{ParentRef: tc.ref}}); got.String() != tc.want {
			t.Errorf("%s: Service %s", name, got)
		}
	}
}

func TestFormer(t *testing.T) {
	service, policy := &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "a"}, &networkingv1.ParentReference{Group: "g", Resource: "policies", Name: "a"}
	for name, tc := range map[string]struct {
		ref        *networkingv1.ParentReference
		finalizers []string
		deleted    bool
		want       bool
	}{
		"let go of":                {service, []string{"f", "clusterip-operator.io/former-address"}, true, true},
		"the Service has it still": {service, []string{"clusterip-operator.io/former-address"}, false, false},
		"somebody else's hold":     {service, []string{"f"}, true, false},
		"of no Service":            {policy, []string{"clusterip-operator.io/former-address"}, true, false},
	} {
		ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Finalizers: tc.finalizers}, Spec: networkingv1.IPAddressSpec{ParentRef: tc.ref}}
		if tc.deleted {
			ip.DeletionTimestamp = new(metav1.Unix(1, 0))
		}
		if got := Former(ip); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
		if words := strings.Contains(Describe(ip), "additional IPAddress of services ns/a"); words != tc.want {
			t.Errorf("%s: described as %s", name, Describe(ip))
		}
	}
}

var (
	byAPIServer = metav1.ManagedFieldsEntry{Manager: "kube-apiserver", Operation: metav1.ManagedFieldsOperationUpdate}
	itsStatus   = metav1.ManagedFieldsEntry{Manager: "kubernetes-service-cidr-controller", Operation: metav1.ManagedFieldsOperationApply, Subresource: "status"}
	byKubectl   = metav1.ManagedFieldsEntry{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate}
)

// Signatures show which API server allocates from what.
func TestWrittenByAPIServer(t *testing.T) {
	with := func(f metav1.ManagedFieldsEntry, do func(*metav1.ManagedFieldsEntry)) metav1.ManagedFieldsEntry {
		do(&f)
		return f
	}
	for name, tc := range map[string]struct {
		fields []metav1.ManagedFieldsEntry
		want   bool
	}{
		"nobody":                           {},
		"an API server":                    {[]metav1.ManagedFieldsEntry{byAPIServer}, true},
		"its controller, the status":       {[]metav1.ManagedFieldsEntry{byKubectl, itsStatus}, true},
		"somebody, then an API server":     {[]metav1.ManagedFieldsEntry{byKubectl, byAPIServer}, true},
		"somebody":                         {[]metav1.ManagedFieldsEntry{byKubectl}, false},
		"an API server, the status":        {[]metav1.ManagedFieldsEntry{with(byAPIServer, func(f *metav1.ManagedFieldsEntry) { f.Subresource = "status" })}, false},
		"somebody who calls himself so":    {[]metav1.ManagedFieldsEntry{with(byAPIServer, func(f *metav1.ManagedFieldsEntry) { f.Operation = "Apply" })}, false},
		"the controller's name, no status": {[]metav1.ManagedFieldsEntry{with(itsStatus, func(f *metav1.ManagedFieldsEntry) { f.Subresource = "" })}, false},
	} {
		if got := WrittenByAPIServer(&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{ManagedFields: tc.fields}}); got != tc.want {
			t.Errorf("%s: written by an API server %v", name, got)
		}
	}
}

func TestMinor(t *testing.T) {
	for name, tc := range map[string]struct {
		v    *version.Info
		want int // 0: it is not known
	}{
		"1.33":                   {&version.Info{Major: "1", Minor: "33"}, 33},
		"a vendor's":             {&version.Info{Major: "1", Minor: "34+"}, 34},
		"one that emulates":      {&version.Info{Major: "1", Minor: "36", EmulationMinor: "33"}, 33},
		"2.1":                    {&version.Info{Major: "2", Minor: "1"}, 0},
		"something else":         {&version.Info{Major: "1", Minor: "x"}, 0},
		"one that says nothing":  {&version.Info{}, 0},
		"one that was not asked": {},
	} {
		if got, ok := Minor(tc.v); got != tc.want || ok != (tc.want != 0) {
			t.Errorf("%s: %d, %v", name, got, ok)
		}
	}
}

// An API server that uses the default ServiceCIDR again says so only if condition Ready is missing.
func TestDisownServiceCIDR(t *testing.T) {
	o := &networkingv1.ServiceCIDR{Status: networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{Type: "Ready"}, {Type: "Other"}}}}
	Disown(o, "us")
	if diff := cmp.Diff([]metav1.Condition{{Type: "Other"}}, o.Status.Conditions); diff != "" {
		t.Error(diff)
	}
}

func TestDisown(t *testing.T) {
	o := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.5", ManagedFields: []metav1.ManagedFieldsEntry{byKubectl, byAPIServer, itsStatus}}}
	Disown(o, "us")
	if WrittenByAPIServer(o) {
		t.Error("it is still signed")
	}
	ours, status := byAPIServer, itsStatus
	ours.Manager, status.Manager = "us", "us"
	want := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.5", ManagedFields: []metav1.ManagedFieldsEntry{byKubectl, ours, status}}}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("who owns what, beside the name of the owner (-want +got):\n%s", diff)
	}
}
