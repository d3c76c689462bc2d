package history

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/history"
)

var (
	created = metav1.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	now     = created.Add(time.Hour)
)

// service is one with addresses, of a UID, and with annotations.
func service(uid string, addresses string, annotations ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: types.UID(uid), CreationTimestamp: created}}
	s.Spec.ClusterIPs = strings.Fields(addresses)
	for _, name := range annotations {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, name, "")
	}
	return s
}

// lines are all records of a change.
func lines(c change) (out []string) {
	for _, all := range [][]history.Record{c.ended, c.begun} {
		for _, r := range all {
			out = append(out, r.String())
		}
	}
	return out
}

func TestServices(t *testing.T) {
	const had, has, still = "10.96.0.7", "10.96.0.8", "fd00::7"
	const at12, at13 = " 2026-11-28T12:00:00Z", " 2026-11-28T13:00:00Z"
	exchanging := service("u", "")
	exchanging.Spec.Type = corev1.ServiceTypeExternalName
	for name, tc := range map[string]struct {
		before, now *corev1.Service
		initial     bool
		want        []string
	}{
		"is there when the replica starts": {now: service("u", had+" "+still), initial: true, want: []string{
			had + " shop/web u found" + at12, still + " shop/web u found" + at12}},
		"is created": {now: service("u", had+" "+still), want: []string{had + " shop/web u created" + at12, still + " shop/web u created" + at12}},
		"is deleted": {before: service("u", had+" "+still), want: []string{
			had + " shop/web u found" + at12 + " deleted" + at13, still + " shop/web u found" + at12 + " deleted" + at13}},
		"is another one by now": {before: service("u", had), now: service("v", had), want: []string{
			had + " shop/web u found" + at12 + " deleted" + at13, had + " shop/web v created" + at12}},
		"gets a second family":     {before: service("u", had), now: service("u", had+" "+still), want: []string{still + " shop/web u changed" + at13}},
		"has a label more":         {before: service("u", had+" "+still), now: service("u", had+" "+still)},
		"has its families in turn": {before: service("u", had+" "+still), now: service("u", still+" "+had)},
		"begins to be renumbered": {before: service("u", had), now: service("u", "", v1alpha1.AnnotationRenumbering), want: []string{
			had + " shop/web u found" + at12 + " renumbered" + at13}},
		"is renumbered": {before: exchanging, now: service("u", has, v1alpha1.AnnotationFormerIPs), want: []string{has + " shop/web u renumbered" + at13}},
		"is headless":   {now: service("u", "None")},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, lines(ofService(tc.before, tc.now, tc.initial, now))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestIPAddresses(t *testing.T) {
	for family, a := range map[string]string{"IPv4": "10.96.0.7", "IPv6": "fd00::7"} {
		t.Run(family, func(t *testing.T) {
			apiServers := &networkingv1.IPAddress{
				ObjectMeta: metav1.ObjectMeta{Name: a, CreationTimestamp: created, Labels: map[string]string{networkingv1.LabelManagedBy: v1alpha1.ManagedByAPIServer}},
				Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "shop", Name: "web"}},
			}
			additional := apiServers.DeepCopy()
			additional.Labels = map[string]string{networkingv1.LabelManagedBy: v1alpha1.ManagedByOperator, v1alpha1.LabelPurpose: v1alpha1.PurposeAdditional}
			additional.Annotations = map[string]string{v1alpha1.AnnotationServiceUID: "u"}
			held := apiServers.DeepCopy()
			held.Finalizers = []string{v1alpha1.FinalizerFormer}
			former := held.DeepCopy()
			former.DeletionTimestamp = &metav1.Time{Time: created.Add(time.Minute)}
			forged := additional.DeepCopy()
			forged.Annotations[v1alpha1.AnnotationServiceUID] = "u created 2020-01-01T00:00:00Z\n10.96.0.8 bank/api"
			nameless := additional.DeepCopy()
			nameless.Spec.ParentRef.Name = "web u\n10.96.0.8 bank/api"
			second := former.DeepCopy()
			second.Labels[v1alpha1.LabelPurpose] = v1alpha1.PurposeSecond
			reserved := additional.DeepCopy()
			reserved.Spec.ParentRef = &networkingv1.ParentReference{Group: v1alpha1.Prefix, Resource: "servicecidrpolicies", Name: "p"}
			for name, tc := range map[string]struct {
				before, now *networkingv1.IPAddress
				want        []string
			}{
				"of a ClusterIP":        {now: apiServers},
				"reserved":              {now: reserved},
				"additional":            {now: additional, want: []string{a + " shop/web u additional 2026-11-28T12:00:00Z"}},
				"with a forged UID":     {now: forged, want: []string{a + " shop/web - additional 2026-11-28T12:00:00Z"}},
				"with a forged name":    {now: nameless},
				"additional, unchanged": {before: additional, now: additional.DeepCopy()},
				"additional, gone":      {before: additional, want: []string{a + " shop/web u additional 2026-11-28T12:00:00Z released 2026-11-28T13:00:00Z"}},
				"of a second Service":   {before: apiServers, now: second},
				"to be renumbered":      {before: apiServers, now: held},
				"let go of":             {before: held, now: former, want: []string{a + " shop/web - former 2026-11-28T12:01:00Z"}},
				"free at last":          {before: former, want: []string{a + " shop/web - former 2026-11-28T12:01:00Z released 2026-11-28T13:00:00Z"}},
			} {
				if diff := cmp.Diff(tc.want, lines(ofIPAddress(tc.before, tc.now, now))); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}
