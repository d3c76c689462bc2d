package replicas

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestLeaseComesBackAsItWasWritten(t *testing.T) {
	want := held("web-0-abc", "1", "2", "3", "4")
	want.serves = true
	o := want.object("ours", epoch)
	got, ok := parse(o)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(lease{})); !ok || diff != "" {
		t.Errorf("read is %t, -want +got:\n%s", ok, diff)
	}
	if o.Namespace != "ours" || o.Name != "clusterip-operator-replica-web-0-abc" || *o.Spec.HolderIdentity != "web-0-abc" ||
		!o.Spec.RenewTime.Time.Equal(epoch) || o.Labels["clusterip-operator.io/replica"] != "true" {
		t.Errorf("it is written as %+v", o)
	}
}

func TestLeaseOfSomebodyElseIsReadWithCare(t *testing.T) {
	seconds := func(s int32) *int32 { return &s }
	for name, tc := range map[string]struct {
		object coordinationv1.Lease
		want   lease
		wantOK bool
	}{
		"another name is no replica's": {coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "clusterip-operator"}}, lease{}, false},
		"nobody is no replica":         {coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: namePrefix}}, lease{}, false},
		"without a duration it lasts as long as any may": {
			coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: namePrefix + "x"}}, lease{id: "x", duration: time.Minute}, true,
		},
		"nor does it last a year": {
			coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: namePrefix + "x"}, Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: seconds(31_536_000)},
			},
			lease{id: "x", duration: time.Minute}, true,
		},
		"what it knows is in any order, with spaces and holes": {
			coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: namePrefix + "x", Annotations: map[string]string{Knows: " b,,a , "}},
				Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: seconds(5)},
			},
			lease{id: "x", duration: 5 * time.Second, knows: []types.UID{"a", "b"}}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := parse(&tc.object)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(lease{})); ok != tc.wantOK || diff != "" {
				t.Errorf("read is %t, want %t; -want +got:\n%s", ok, tc.wantOK, diff)
			}
		})
	}
}
