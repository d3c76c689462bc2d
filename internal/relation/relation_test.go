package relation

import (
	"net/netip"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

func TestOf(t *testing.T) {
	a, b, none := named("a"), named("b"), types.NamespacedName{}
	for _, address := range []string{"10.0.0.5", "fd00::5"} {
		address := netip.MustParseAddr(address)
		other := map[string]string{"IPv4": "IPv6", "IPv6": "IPv4"}
		ip := func(parent types.NamespacedName, manager string) *IPAddress {
			o := upstream.NewIPAddress(address, parent)
			o.Labels[networkingv1.LabelManagedBy] = manager
			view, _ := NewIPAddress(o)
			return &view
		}
		wrongFamily := ip(a, v1alpha1.ManagedByAPIServer)
		wrongFamily.Family = other[wrongFamily.Family]
		for name, tc := range map[string]struct {
			owner  types.NamespacedName
			object *IPAddress
			want   State
		}{
			"nothing there":                     {none, nil, InOrder},
			"the relation holds":                {a, ip(a, v1alpha1.ManagedByAPIServer), InOrder},
			"no IPAddress":                      {a, nil, Missing},
			"no Service":                        {none, ip(a, v1alpha1.ManagedByAPIServer), Unclaimed},
			"no Service, names none":            {none, ip(none, v1alpha1.ManagedByAPIServer), Unclaimed},
			"a reservation":                     {none, ip(none, v1alpha1.ManagedByOperator), InOrder},
			"another manager's":                 {none, ip(a, "example.com"), InOrder},
			"without a label, no Service":       {none, ip(a, ""), InOrder},
			"names another Service":             {a, ip(b, v1alpha1.ManagedByAPIServer), WrongParent},
			"names no Service":                  {a, ip(none, v1alpha1.ManagedByAPIServer), WrongParent},
			"names another, without a label":    {a, ip(b, ""), WrongParent},
			"another manager's on the address":  {a, ip(b, "example.com"), WrongParent},
			"the operator's on the address":     {a, ip(none, v1alpha1.ManagedByOperator), WrongParent},
			"names it, the manager is lost":     {a, ip(a, ""), WrongLabels},
			"names it, the manager is replaced": {a, ip(a, "example.com"), WrongLabels},
			"names it, the other family":        {a, wrongFamily, WrongLabels},
			"of the name in another namespace":  {types.NamespacedName{Namespace: "other", Name: "a"}, ip(a, v1alpha1.ManagedByAPIServer), WrongParent},
		} {
			if got := Of(address, tc.owner, tc.object); got != tc.want {
				t.Errorf("%s, %s: state %d, want %d", address, name, got, tc.want)
			}
		}
	}
}

// API servers write IPAddresses before Services, the operator after them.
func TestUnderway(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		signed, bitmap bool
		age            time.Duration
		want           time.Duration
	}{
		"an API server allocates":             {age: 10 * time.Second, want: 50 * time.Second},
		"it is over":                          {age: 61 * time.Second, want: -time.Second},
		"the bitmap, the operator's":          {bitmap: true, age: 10 * time.Second},
		"the bitmap, that of one that flips":  {bitmap: true, signed: true, age: 10 * time.Second, want: 50 * time.Second},
		"an API server allocates, and signed": {signed: true, age: 10 * time.Second, want: 50 * time.Second},
	} {
		o := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "fd00::5", CreationTimestamp: metav1.NewTime(now.Add(-tc.age))}}
		if tc.signed {
			o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kube-apiserver", Operation: metav1.ManagedFieldsOperationUpdate}}
		}
		ip, ok := NewIPAddress(o)
		if got := ip.Underway(now, tc.bitmap); got != tc.want || !ok {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestRank(t *testing.T) {
	old, young := time.Unix(1000, 0), time.Unix(1001, 0)
	claims := []Claim{{named("a"), young, false}, {named("d"), old, true}, {named("c"), old, false}, {named("b"), old, false}, {named("e"), young, true}}
	Rank(claims, func(c Claim) Claim { return c })
	got := ""
	for _, c := range claims {
		got += c.Service.Name
	}
	if got != "bcade" {
		t.Errorf("order of right %s, want bcade: those that spell it right first, then by age, then by name", got)
	}
}
