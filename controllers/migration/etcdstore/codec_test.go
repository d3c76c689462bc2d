package etcdstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

// envelope builds a stored value by hand: the prefix, and a runtime.Unknown with the version, the kind and the object.
func envelope(t testing.TB, apiVersion, kind string, object []byte) []byte {
	t.Helper()
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: object}
	body, err := u.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("k8s\x00"), body...)
}

// wire is the protobuf of an object alone.
func wire(t testing.TB, o interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	raw, err := o.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func jsonOf(t testing.TB, apiVersion, kind string, o any) []byte {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return append(bytes.Replace(raw, []byte("{"), []byte(`{"kind":"`+kind+`","apiVersion":"`+apiVersion+`",`), 1), '\n')
}

var born = metav1.NewTime(time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC).Local())

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: "7c0ffee0-0000-4000-8000-000000000001", CreationTimestamp: born,
		Labels: map[string]string{"b": "2", "a": "1", "c": "3"}, Annotations: map[string]string{"note": "grüße"},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", Time: &born,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`),
		}},
	}
}

func service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: objectMeta("default", "web"),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.9", ClusterIPs: []string{"10.96.0.9", "fd00::9"},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			Ports:      []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
			Selector:   map[string]string{"y": "2", "x": "1"},
		},
	}
}

func ipAddress() *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: objectMeta("", "10.96.0.9"),
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "web"}},
	}
}

func serviceCIDR() *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: objectMeta("", "kubernetes"),
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16", "fd00::/112"}},
		Status:     networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{Type: "Ready", Status: "True", LastTransitionTime: born}}},
	}
}

func rangeAllocation() *corev1.RangeAllocation {
	return &corev1.RangeAllocation{Range: "10.96.0.0/16", Data: []byte{0x80, 0, 0x01}}
}

// TestDecode holds the decoder against values that were put together by hand, byte for byte as the API server lays them out.
func TestDecode(t *testing.T) {
	beta := &networkingv1beta1.IPAddress{
		ObjectMeta: ipAddress().ObjectMeta,
		Spec:       networkingv1beta1.IPAddressSpec{ParentRef: &networkingv1beta1.ParentReference{Resource: "services", Namespace: "default", Name: "web"}},
	}
	betaCIDR := &networkingv1beta1.ServiceCIDR{
		ObjectMeta: serviceCIDR().ObjectMeta,
		Spec:       networkingv1beta1.ServiceCIDRSpec{CIDRs: serviceCIDR().Spec.CIDRs},
		Status:     networkingv1beta1.ServiceCIDRStatus{Conditions: serviceCIDR().Status.Conditions},
	}
	namespace := &corev1.Namespace{ObjectMeta: objectMeta("", "kube-system"), Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
	for name, tc := range map[string]struct {
		raw         []byte
		want        runtime.Object
		wantVersion string
	}{
		"Service":                    {envelope(t, "v1", "Service", wire(t, service())), service(), "v1"},
		"Namespace":                  {envelope(t, "v1", "Namespace", wire(t, namespace)), namespace, "v1"},
		"RangeAllocation":            {envelope(t, "v1", "RangeAllocation", wire(t, rangeAllocation())), rangeAllocation(), "v1"},
		"RangeAllocation never used": {envelope(t, "v1", "RangeAllocation", wire(t, &corev1.RangeAllocation{})), &corev1.RangeAllocation{}, "v1"},
		"IPAddress v1":               {envelope(t, "networking.k8s.io/v1", "IPAddress", wire(t, ipAddress())), ipAddress(), "networking.k8s.io/v1"},
		"IPAddress v1beta1":          {envelope(t, "networking.k8s.io/v1beta1", "IPAddress", wire(t, beta)), ipAddress(), "networking.k8s.io/v1beta1"},
		"ServiceCIDR v1":             {envelope(t, "networking.k8s.io/v1", "ServiceCIDR", wire(t, serviceCIDR())), serviceCIDR(), "networking.k8s.io/v1"},
		"ServiceCIDR v1beta1":        {envelope(t, "networking.k8s.io/v1beta1", "ServiceCIDR", wire(t, betaCIDR)), serviceCIDR(), "networking.k8s.io/v1beta1"},
		"JSON Service":               {jsonOf(t, "v1", "Service", service()), service(), "v1"},
		"JSON RangeAllocation":       {jsonOf(t, "v1", "RangeAllocation", rangeAllocation()), rangeAllocation(), "v1"},
		"JSON IPAddress v1beta1":     {jsonOf(t, "networking.k8s.io/v1beta1", "IPAddress", beta), ipAddress(), "networking.k8s.io/v1beta1"},
		"JSON after white space":     {append([]byte(" \n\t"), jsonOf(t, "v1", "Service", service())...), service(), "v1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, version, err := decode(tc.raw)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if version != tc.wantVersion {
				t.Errorf("stored as %q, want %q", version, tc.wantVersion)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	whole := envelope(t, "v1", "Service", wire(t, service()))
	slice := envelope(t, "discovery.k8s.io/v1", "EndpointSlice", wire(t, &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}))
	for name, tc := range map[string]struct {
		raw         []byte
		want        string // a part of the error
		wantVersion string
	}{
		"nothing":                 {nil, "the value is empty", ""},
		"empty":                   {[]byte{}, "the value is empty", ""},
		"noise":                   {[]byte("\x01\x02\x03"), "3 bytes, is neither protobuf nor JSON", ""},
		"text":                    {[]byte("hello"), "5 bytes, is neither protobuf nor JSON", ""},
		"half of the prefix":      {[]byte("k8s"), "3 bytes, is neither protobuf nor JSON", ""},
		"prefix alone":            {[]byte("k8s\x00"), "4 bytes, is broken: empty body", ""},
		"noise behind prefix":     {[]byte("k8s\x00\xff\xff\xff"), "7 bytes, is broken", ""},
		"cut in the envelope":     {whole[:len(whole)-20], "is broken", ""},
		"broken object":           {envelope(t, "v1", "Service", []byte("\x0a\xff")), "a Service of 27 bytes, is broken", "v1"},
		"no kind":                 {envelope(t, "v1", "", wire(t, service())), "does not say what kind", "v1"},
		"no version":              {envelope(t, "", "Service", wire(t, service())), "does not say what kind", ""},
		"kind of another group":   {slice, "unknown kind: EndpointSlice of discovery.k8s.io/v1", "discovery.k8s.io/v1"},
		"version of the past":     {envelope(t, "networking.k8s.io/v1alpha1", "IPAddress", wire(t, ipAddress())), "unknown kind: IPAddress of networking.k8s.io/v1alpha1", "networking.k8s.io/v1alpha1"},
		"v1beta1 of another kind": {envelope(t, "networking.k8s.io/v1beta1", "Ingress", nil), "unknown kind: Ingress of networking.k8s.io/v1beta1", "networking.k8s.io/v1beta1"},
		"JSON cut":                {[]byte(`{"kind":"Service","apiVersion":"v1","spec":{`), "is broken", ""},
		"JSON of a wrong shape":   {[]byte(`{"kind":"Service","apiVersion":"v1","spec":[]}`), "a Service of 46 bytes, is broken", "v1"},
		"JSON without kind":       {[]byte(`{"apiVersion":"v1"}`), "does not say what kind", "v1"},
		"JSON of unknown kind":    {[]byte(`{"kind":"Ship","apiVersion":"sea/v1"}`), "unknown kind: Ship of sea/v1", "sea/v1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, version, err := decode(tc.raw)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("decoded as %v with error %v, want %q", got, err, tc.want)
			}
			if got != nil || errors.Is(err, migration.ErrEncrypted) {
				t.Errorf("got %v, %v", got, err)
			}
			if version != tc.wantVersion {
				t.Errorf("stored as %q, want %q", version, tc.wantVersion)
			}
		})
	}
}

// TestDecodeEncrypted wants the provider named, and nothing of what it hides.
func TestDecodeEncrypted(t *testing.T) {
	for raw, want := range map[string]string{
		"k8s:enc:aescbc:v1:key1:secret\x00\xff":                "aescbc:v1:key1",
		"k8s:enc:aesgcm:v1:key2:secret:with:colons":            "aesgcm:v1:key2",
		"k8s:enc:secretbox:v1:key1:secret":                     "secretbox:v1:key1",
		"k8s:enc:kms:v1:vault:secret":                          "kms:v1:vault",
		"k8s:enc:kms:v2:vault:secret":                          "kms:v2:vault",
		"k8s:enc:aescbc:v1:secret":                             "an unknown provider",
		"k8s:enc:":                                             "an unknown provider",
		"k8s:enc:aescbc":                                       "an unknown provider",
		"k8s:enc:secret\x00with:a:colon:or two":                "an unknown provider",
		"k8s:enc:" + strings.Repeat("secret", 50) + ":v1:key:": "an unknown provider",
	} {
		o, _, err := decode([]byte(raw))
		if o != nil || !errors.Is(err, migration.ErrEncrypted) {
			t.Errorf("%q: decoded as %v with error %v", raw, o, err)
			continue
		}
		if got := err.Error(); got != migration.ErrEncrypted.Error()+" (by "+want+")" {
			t.Errorf("%q: error %q, want it to name %s and nothing else", raw, got, want)
		}
	}
}

// TestEncode holds the encoder against the same values put together by hand.
func TestEncode(t *testing.T) {
	for name, tc := range map[string]struct {
		object     runtime.Object
		apiVersion string
		want       []byte
	}{
		"Service":             {service(), "", envelope(t, "v1", "Service", wire(t, service()))},
		"Service named v1":    {service(), "v1", envelope(t, "v1", "Service", wire(t, service()))},
		"RangeAllocation":     {rangeAllocation(), "", envelope(t, "v1", "RangeAllocation", wire(t, rangeAllocation()))},
		"IPAddress":           {ipAddress(), "", envelope(t, "networking.k8s.io/v1", "IPAddress", wire(t, ipAddress()))},
		"IPAddress v1":        {ipAddress(), "networking.k8s.io/v1", envelope(t, "networking.k8s.io/v1", "IPAddress", wire(t, ipAddress()))},
		"IPAddress v1beta1":   {ipAddress(), "networking.k8s.io/v1beta1", envelope(t, "networking.k8s.io/v1beta1", "IPAddress", wire(t, ipAddress()))},
		"ServiceCIDR v1beta1": {serviceCIDR(), "networking.k8s.io/v1beta1", envelope(t, "networking.k8s.io/v1beta1", "ServiceCIDR", wire(t, serviceCIDR()))},
	} {
		t.Run(name, func(t *testing.T) {
			m := tc.object.(metav1.Object)
			m.SetResourceVersion("7")
			m.SetSelfLink("/api/v1/x")
			before := tc.object.DeepCopyObject()
			got, err := encode(tc.object, tc.apiVersion)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			if diff := cmp.Diff(before, tc.object); diff != "" {
				t.Errorf("the object was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		object     runtime.Object
		apiVersion string
		want       string
	}{
		"nothing":              {nil, "", "there is no object"},
		"unknown type":         {&discoveryv1.EndpointSlice{}, "", "no kind is registered for the type v1.EndpointSlice"},
		"another group":        {ipAddress(), "v1", "IPAddress cannot be stored as v1"},
		"version of the past":  {ipAddress(), "networking.k8s.io/v1alpha1", "IPAddress cannot be stored as networking.k8s.io/v1alpha1"},
		"no version of a kind": {service(), "v1beta1", "Service cannot be stored as v1beta1"},
	} {
		if got, err := encode(tc.object, tc.apiVersion); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: encoded as %q with error %v, want %q", name, got, err, tc.want)
		}
	}
}

// FuzzDecode wants an answer for whatever is stored, and that what was decoded survives being stored again.
func FuzzDecode(f *testing.F) {
	for _, seed := range [][]byte{
		nil,
		[]byte("k8s\x00"),
		[]byte("k8s:enc:kms:v2:vault:secret"),
		[]byte(`{"kind":"Service","apiVersion":"v1","spec":{"clusterIP":"10.0.0.1"}}`),
		[]byte(`{"kind":"List","apiVersion":"v1","items":[{}]}`),
		[]byte(`{}`),
		envelope(f, "v1", "Service", wire(f, service())),
		envelope(f, "v1", "RangeAllocation", wire(f, rangeAllocation())),
		envelope(f, "networking.k8s.io/v1beta1", "IPAddress", wire(f, ipAddress())),
		envelope(f, "v1", "List", nil),
		envelope(f, "v1", "Status", nil),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, version, err := decode(raw)
		if (o == nil) == (err == nil) {
			t.Fatalf("object %v and error %v", o, err)
		}
		if err != nil {
			return
		}
		again, err := encode(o, version)
		if err != nil {
			t.Fatalf("what was decoded as %T of %q cannot be encoded: %v", o, version, err)
		}
		if _, _, err := decode(again); err != nil {
			t.Fatalf("what was encoded as %T of %q cannot be decoded: %v", o, version, err)
		}
	})
}
