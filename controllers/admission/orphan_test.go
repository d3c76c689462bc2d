package admission

import (
	"net/netip"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// created is when the IPAddresses of these tests were.
var created = metav1.Now()

// restored is an IPAddress for Service ns/NAME that a backup has brought back, a day old.
func restored(ip, name string, change func(*networkingv1.IPAddress)) *networkingv1.IPAddress {
	o := upstream.NewIPAddress(netip.MustParseAddr(ip), types.NamespacedName{Namespace: "ns", Name: name})
	o.CreationTimestamp = created
	writtenBy(-24*time.Hour, "kube-apiserver")(o)
	if change != nil {
		change(o)
	}
	return o
}

// writtenBy has field managers sign, so long after the creation.
func writtenBy(after time.Duration, managers ...string) func(*networkingv1.IPAddress) {
	return func(o *networkingv1.IPAddress) {
		o.ManagedFields = nil
		for _, m := range managers {
			at := metav1.NewTime(o.CreationTimestamp.Add(after))
			o.ManagedFields = append(o.ManagedFields, metav1.ManagedFieldsEntry{Manager: m, Operation: metav1.ManagedFieldsOperationUpdate, Time: &at})
		}
	}
}

func TestWhichIPAddressIsInTheWay(t *testing.T) {
	for name, tc := range map[string]struct {
		ip      *networkingv1.IPAddress
		service *corev1.Service
		want    bool
	}{
		"restored from a backup": {ip: restored("10.0.0.9", "a", nil), want: true},
		"labelled with its band since": {ip: restored("10.0.0.9", "a", func(o *networkingv1.IPAddress) {
			at := metav1.NewTime(created.Add(time.Second))
			o.ManagedFields = append(o.ManagedFields, metav1.ManagedFieldsEntry{Manager: v1alpha1.ManagerBand, Time: &at})
		}), want: true},
		"restored from a backup, IPv6":              {ip: restored("fd00::9", "a", nil), want: true},
		"gone":                                      {},
		"its Service is there":                      {ip: restored("10.0.0.9", "a", nil), service: corev1Service("a")},
		"for another Service":                       {ip: restored("10.0.0.9", "b", nil)},
		"written by an API server":                  {ip: restored("10.0.0.9", "a", writtenBy(0, "kube-apiserver"))},
		"written by one that is called otherwise":   {ip: restored("fd00::9", "a", writtenBy(0, "k3s"))},
		"signed while admission was slow":           {ip: restored("10.0.0.9", "a", writtenBy(-30*time.Second, "kube-apiserver"))},
		"labelled later":                            {ip: restored("10.0.0.9", "a", writtenBy(time.Hour, "kubectl-label"))},
		"signed without a time":                     {ip: restored("10.0.0.9", "a", func(o *networkingv1.IPAddress) { o.ManagedFields[0].Time = nil })},
		"written by a client that nothing tells of": {ip: restored("10.0.0.9", "a", writtenBy(0))},
		"of another manager":                        {ip: restored("10.0.0.9", "a", func(o *networkingv1.IPAddress) { o.Labels[networkingv1.LabelManagedBy] = "acme" })},
		"without a label":                           {ip: restored("10.0.0.9", "a", func(o *networkingv1.IPAddress) { o.Labels = nil })},
		"being deleted":                             {ip: restored("10.0.0.9", "a", func(o *networkingv1.IPAddress) { o.DeletionTimestamp = new(metav1.Now()) })},
		"held by a finalizer":                       {ip: restored("10.0.0.9", "a", func(o *networkingv1.IPAddress) { o.Finalizers = []string{v1alpha1.FinalizerFormer} })},
	} {
		t.Run(name, func(t *testing.T) {
			if got := inWay(tc.ip, tc.service, types.NamespacedName{Namespace: "ns", Name: "a"}); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestAnOrphanIsFreedForItsService has the API server refuse what an IPAddress keeps.
func TestAnOrphanIsFreedForItsService(t *testing.T) {
	yes := true
	for name, tc := range map[string]struct {
		orphan   *networkingv1.IPAddress
		had      bool // a Service of that name had the address, and has just gone
		asks     string
		dryRun   *bool
		wantFree bool
	}{
		"the Service that it names":    {orphan: restored("10.0.0.9", "a", nil), asks: "a", wantFree: true},
		"IPv6":                         {orphan: restored("fd00::9", "a", nil), asks: "a", wantFree: true},
		"another Service":              {orphan: restored("10.0.0.9", "a", nil), asks: "b"},
		"a dry run":                    {orphan: restored("10.0.0.9", "a", nil), asks: "a", dryRun: &yes},
		"a creation may be going on":   {orphan: restored("fd00::9", "a", writtenBy(0, "kube-apiserver")), asks: "a"},
		"a deletion may be going on":   {orphan: restored("10.0.0.9", "a", nil), had: true, asks: "a"},
		"a deletion of IPv6, the same": {orphan: restored("fd00::9", "a", nil), had: true, asks: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			s := setting{cidrs: []*networkingv1.ServiceCIDR{rangeOf("kubernetes", "10.0.0.0/24", "fd00::/120")}, addresses: []*networkingv1.IPAddress{tc.orphan}}
			if tc.had {
				s.services = append(s.services, corev1Service("a", tc.orphan.Name))
			}
			c := newCluster(t, s)
			address := netip.MustParseAddr(tc.orphan.Name)
			if tc.had {
				c.mu.Lock()
				delete(c.services, "a")
				c.source(s.services[0]).Delete(s.services[0])
				c.mu.Unlock()
				await(t, "its end is seen", func() bool { return len(c.steerer.Index.Claims(address)) == 0 })
			}
			got := c.ask(t, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, DryRun: tc.dryRun, Object: rawOf(t, corev1Service(tc.asks, tc.orphan.Name)),
			}})
			if !got.Allowed {
				t.Fatalf("the answer is %+v", got)
			}
			if _, left := c.purposes()[tc.orphan.Name]; left == tc.wantFree {
				t.Errorf("it is left: %v", left)
			}
			if err := c.accept(tc.asks, tc.orphan.Name); (err == nil) != tc.wantFree {
				t.Errorf("the API server says: %v", err)
			}
			if n := c.steerer.Index.InFlight(); tc.wantFree && n > 1 || !tc.wantFree && n > 0 {
				t.Errorf("%d addresses are in flight", n)
			}
		})
	}
}
