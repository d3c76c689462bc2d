package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

func object(namespace, name, version string) unstructured.Unstructured {
	u := unstructured.Unstructured{Object: map[string]any{}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetResourceVersion(version)
	return u
}

func objects(items ...unstructured.Unstructured) Objects {
	o := Objects{}
	o.add(schema.GroupResource{Resource: "services"}, items)
	return o
}

func TestChangesNameWhatIsNewGoneAndDifferent(t *testing.T) {
	before := objects(object("a", "same", "1"), object("a", "written", "1"), object("a", "deleted", "1"))
	after := objects(object("a", "same", "1"), object("a", "written", "2"), object("a", "created", "1"))

	changes := before.Changes(after)
	if len(changes) != 3 || changes[0] != "services a/deleted is gone" || changes[2] != "services a/created is new" {
		t.Errorf("got %q", changes)
	}
	if got := before.Content().Changes(after.Content()); len(got) != 2 {
		t.Errorf("a write that says nothing is a change of content: %q", got)
	}
	if got := before.Without("services").Changes(after.Without("services")); len(got) != 0 {
		t.Errorf("left out, and still compared: %q", got)
	}
	if before.Count("services") != 3 || before.Get("services", "a", "same") == nil || before.Get("services", "b", "same") != nil {
		t.Errorf("the objects are not found: %v", before)
	}
}

func TestFindings(t *testing.T) {
	web := *framework.NewService("default", "web", framework.WithClusterIPs("10.0.0.1", "fd00::1"))
	twin := *framework.NewService("default", "twin", framework.WithClusterIPs("10.0.0.1"))
	headless := *framework.NewService("default", "headless", framework.Headless())
	alias := *framework.NewService("default", "alias", framework.ExternalName("example.com"))
	four := *framework.NewIPAddress("10.0.0.1", "default", "web")
	six := *framework.NewIPAddress("fd00::1", "default", "web")
	wrongFamily := *framework.NewIPAddress("fd00::1", "default", "web", framework.WithIPLabel(networkingv1.LabelIPAddressFamily, "IPv4"))

	for name, tc := range map[string]struct {
		services  []corev1.Service
		addresses []networkingv1.IPAddress
		want      []string
	}{
		"in order": {
			services:  []corev1.Service{web, headless, alias},
			addresses: []networkingv1.IPAddress{four, six, *framework.NewIPAddress("10.0.0.2", "x", "y", framework.ManagedBy("somebody"))},
		},
		"missing": {
			services: []corev1.Service{web}, addresses: []networkingv1.IPAddress{four},
			want: []string{"address fd00::1 of Service [default/web] has no IPAddress"},
		},
		"orphan": {
			addresses: []networkingv1.IPAddress{four},
			want:      []string{"IPAddress 10.0.0.1 names default/web, but no Service holds the address"},
		},
		"wrong parent": {
			services: []corev1.Service{twin}, addresses: []networkingv1.IPAddress{four},
			want: []string{"IPAddress 10.0.0.1 names default/web, but [default/twin] holds the address"},
		},
		"duplicate": {
			services: []corev1.Service{web, twin}, addresses: []networkingv1.IPAddress{four, six},
			want: []string{"address 10.0.0.1 is held by the Services [default/web default/twin]"},
		},
		"wrong label": {
			services: []corev1.Service{web}, addresses: []networkingv1.IPAddress{four, wrongFamily},
			want: []string{`IPAddress fd00::1 has the family label "IPv4"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, findings(tc.services, tc.addresses)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
