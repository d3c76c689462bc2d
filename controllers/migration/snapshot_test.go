package migration

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/relation"
)

func TestNewService(t *testing.T) {
	for name, tc := range map[string]struct {
		spec corev1.ServiceSpec
		// wantAddresses as netip writes them.
		wantAddresses, wantInvalid, wantMisspelt []string
	}{
		"one address":         {spec: corev1.ServiceSpec{ClusterIP: "10.0.0.5", ClusterIPs: []string{"10.0.0.5"}}, wantAddresses: []string{"10.0.0.5"}},
		"headless":            {spec: corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}}},
		"not allocated yet":   {spec: corev1.ServiceSpec{}},
		"written before 1.20": {spec: corev1.ServiceSpec{ClusterIP: "10.0.0.5"}, wantAddresses: []string{"10.0.0.5"}},
		"leading zeros":       {spec: corev1.ServiceSpec{ClusterIP: "10.000.0.010", ClusterIPs: []string{"10.000.0.010"}}, wantAddresses: []string{"10.0.0.10"}, wantMisspelt: []string{"10.000.0.010"}},
		"IPv4 in IPv6":        {spec: corev1.ServiceSpec{ClusterIP: "::ffff:10.0.0.5", ClusterIPs: []string{"::ffff:10.0.0.5"}}, wantAddresses: []string{"10.0.0.5"}, wantMisspelt: []string{"::ffff:10.0.0.5"}},
		"words":               {spec: corev1.ServiceSpec{ClusterIP: "10.0.0.5", ClusterIPs: []string{"10.0.0.5", "nonsense"}}, wantAddresses: []string{"10.0.0.5"}, wantInvalid: []string{"nonsense"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", CreationTimestamp: metav1.NewTime(noon)}, Spec: tc.spec}
			before := o.DeepCopy()
			want := aService("a", tc.wantAddresses...)
			want.UID, want.Created, want.Invalid, want.Misspelt = "u", noon, tc.wantInvalid, tc.wantMisspelt
			mustEqual(t, "Service", newService(o), want)
			mustEqual(t, "the object, which is somebody else's", o, before)
		})
	}
}

func TestNewIPAddress(t *testing.T) {
	want := finalized(byAPIServer(made(anIP("10.0.0.5", "a"), time.Minute)))
	o := objectOf(want)
	o.ResourceVersion = "7"
	got, _ := relation.NewIPAddress(o)
	mustEqual(t, "IPAddress", got, want)
	o.Labels, o.DeletionTimestamp = nil, &metav1.Time{Time: noon}
	if got, _ := relation.NewIPAddress(o); got.ManagedBy != "" || got.Family != "" || !got.Deleting {
		t.Errorf("without labels, and being deleted, it is %+v", got)
	}
	o.Name = "kubernetes"
	if _, ok := relation.NewIPAddress(o); ok {
		t.Error("a name that is no address is taken for one")
	}
}

func TestNewServiceCIDR(t *testing.T) {
	want := aCIDR("kubernetes", "10.0.0.0/24,fd00::/112")
	want.Finalizers, want.Deleting, want.ByAPIServer = []string{"f"}, true, true
	o := cidrObject(want)
	o.ResourceVersion = "9"
	o.Spec.CIDRs = append(o.Spec.CIDRs, "nonsense")
	mustEqual(t, "ServiceCIDR", newServiceCIDR(o), want)
	o.ManagedFields[0].Manager = v1alpha1.ManagerMigration
	if newServiceCIDR(o).ByAPIServer {
		t.Error("one of ours is taken for one of the API server's")
	}
}
