package etcdstore

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

// envelope builds a stored value by hand: the prefix, and a runtime.Unknown with version and kind.
func envelope(t testing.TB, apiVersion, kind string, object []byte) []byte {
	t.Helper()
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: object}
	return append([]byte("k8s\x00"), must(u.Marshal())...)
}

// wire is the protobuf of an object alone.
func wire(t testing.TB, o interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	return must(o.Marshal())
}

func jsonOf(t testing.TB, apiVersion, kind string, o any) []byte {
	t.Helper()
	return append(bytes.Replace(must(json.Marshal(o)), []byte("{"), []byte(`{"kind":"`+kind+`","apiVersion":"`+apiVersion+`",`), 1), '\n')
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

// TestCodec compares decoder and encoder with values that were put together by hand, as the API
// server lays them out. The v1beta1 kinds are the same on the wire.
func TestCodec(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: objectMeta("", "kube-system"), Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
	for name, tc := range map[string]struct {
		object        runtime.Object
		version, kind string
		raw           []byte
	}{
		"Service":             {service(), "v1", "Service", wire(t, service())},
		"Namespace":           {namespace, "v1", "Namespace", wire(t, namespace)},
		"RangeAllocation":     {rangeAllocation(), "v1", "RangeAllocation", wire(t, rangeAllocation())},
		"never used":          {&corev1.RangeAllocation{}, "v1", "RangeAllocation", wire(t, &corev1.RangeAllocation{})},
		"IPAddress":           {ipAddress(), "networking.k8s.io/v1", "IPAddress", wire(t, ipAddress())},
		"IPAddress v1beta1":   {ipAddress(), "networking.k8s.io/v1beta1", "IPAddress", wire(t, ipAddress())},
		"ServiceCIDR v1beta1": {serviceCIDR(), "networking.k8s.io/v1beta1", "ServiceCIDR", wire(t, serviceCIDR())},
	} {
		t.Run(name, func(t *testing.T) {
			stored := envelope(t, tc.version, tc.kind, tc.raw)
			asJSON := jsonOf(t, tc.version, tc.kind, tc.object)
			for _, raw := range [][]byte{stored, asJSON, append([]byte(" \n\t"), asJSON...)} {
				got, version, err := decode(raw)
				if diff := cmp.Diff(tc.object, got); diff != "" || err != nil || version != tc.version {
					t.Errorf("stored as %q, %v (-want +got):\n%s", version, err, diff)
				}
			}
			tc.object.(metav1.Object).SetResourceVersion("7")
			before := tc.object.DeepCopyObject()
			got, err := encode(tc.object, tc.version)
			if !bytes.Equal(got, stored) || err != nil {
				t.Errorf("got  %q, %v\nwant %q", got, err, stored)
			}
			if diff := cmp.Diff(before, tc.object); diff != "" {
				t.Errorf("the object was changed (-before +after):\n%s", diff)
			}
			if latest, err := encode(tc.object, ""); err != nil || !bytes.Equal(latest, envelope(t, strings.Replace(tc.version, "v1beta1", "v1", 1), tc.kind, tc.raw)) {
				t.Errorf("without a version it is stored as %q, %v", latest, err)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	whole := envelope(t, "v1", "Service", wire(t, service()))
	for name, tc := range map[string]struct {
		raw         []byte
		want        string // a part of the error
		wantVersion string
	}{
		"nothing":               {nil, "the value is empty", ""},
		"noise":                 {[]byte("\x01\x02\x03"), "3 bytes, is neither protobuf nor JSON", ""},
		"prefix alone":          {[]byte("k8s\x00"), "4 bytes, cannot be decoded", ""},
		"cut in the envelope":   {whole[:len(whole)-20], "cannot be decoded", ""},
		"broken object":         {envelope(t, "v1", "Service", []byte("\x0a\xff")), "27 bytes, cannot be decoded", "v1"},
		"no kind":               {envelope(t, "v1", "", wire(t, service())), "Kind", "v1"},
		"version of the past":   {envelope(t, "networking.k8s.io/v1alpha1", "IPAddress", wire(t, ipAddress())), "no kind", "networking.k8s.io/v1alpha1"},
		"JSON cut":              {[]byte(`{"kind":"Service","apiVersion":"v1","spec":{`), "cannot be decoded", ""},
		"JSON of unknown kind":  {[]byte(`{"kind":"Ship","apiVersion":"sea/v1"}`), "no kind \"Ship\"", "sea/v1"},
		"encrypted":             {[]byte("k8s:enc:aescbc:v1:key1:secret\x00\xff"), "the value is encrypted at rest (by aescbc:v1:key1)", ""},
		"encrypted, and no key": {[]byte("k8s:enc:aescbc:v1:secret"), migration.ErrEncrypted.Error(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, version, err := decode(tc.raw)
			if got != nil || err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") || version != tc.wantVersion {
				t.Errorf("decoded as %v of %q with error %v, want %q", got, version, err, tc.want)
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
		"unknown type":        {&discoveryv1.EndpointSlice{}, "", "no kind is registered for the type v1.EndpointSlice"},
		"another group":       {ipAddress(), "v1", "IPAddress cannot be stored as v1"},
		"version of the past": {ipAddress(), "networking.k8s.io/v1alpha1", "IPAddress cannot be stored as networking.k8s.io/v1alpha1"},
	} {
		if got, err := encode(tc.object, tc.apiVersion); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: encoded as %q with error %v, want %q", name, got, err, tc.want)
		}
	}
}

// FuzzDecode wants an answer to every value, and that what was decoded survives being stored again.
func FuzzDecode(f *testing.F) {
	for _, seed := range [][]byte{
		nil,
		[]byte("k8s\x00"),
		[]byte(`{"kind":"Service","apiVersion":"v1","spec":{"clusterIP":"10.0.0.1"}}`),
		[]byte(`{"kind":"List","apiVersion":"v1","items":[{}]}`),
		envelope(f, "v1", "Service", wire(f, service())),
		envelope(f, "v1", "RangeAllocation", wire(f, rangeAllocation())),
		envelope(f, "networking.k8s.io/v1beta1", "IPAddress", wire(f, ipAddress())),
		envelope(f, "v1", "List", nil),
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
