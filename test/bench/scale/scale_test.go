package scale

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// small is a world that is made without an API server.
func small() *world {
	w := &world{namespaces: 7, service: &corev1.Service{}}
	for range 2 {
		w.addresses = append(w.addresses, &networkingv1.IPAddress{Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services"}}})
	}
	return w
}

func TestEveryServiceHasAddressesOfItsOwn(t *testing.T) {
	w, seen := small(), map[string]bool{}
	for _, i := range []int{0, 1, 49_999, 50_000, 50_001, 99_999, 100_199} {
		service := w.serviceAt(i, "").Value.(*corev1.Service)
		for family, address := range service.Spec.ClusterIPs {
			a := netip.MustParseAddr(address)
			if !rangesOf(i)[family].Contains(a) || seen[address] {
				t.Errorf("Service %d has %s, of %v, seen before: %t", i, address, rangesOf(i), seen[address])
			}
			seen[address] = true
			ip := w.ipAddressAt(2*i + family).Value.(*networkingv1.IPAddress)
			if ip.Name != address || ip.Spec.ParentRef.Name != service.Name || ip.Spec.ParentRef.Namespace != service.Namespace {
				t.Errorf("the IPAddress of Service %s/%s at %s is %s, of %+v", service.Namespace, service.Name, address, ip.Name, ip.Spec.ParentRef)
			}
		}
	}
	all := map[string]bool{}
	for i := range 100_200 {
		for _, a := range addressesOf(i) {
			all[a] = true
		}
	}
	if len(all) != 200_400 {
		t.Errorf("%d addresses of 100,200 Services", len(all))
	}
}

func TestWhatIsWrittenAgainIsTheSameObject(t *testing.T) {
	w := small()
	before, after := w.serviceAt(5, "").Value.(*corev1.Service), w.serviceAt(5, "x").Value.(*corev1.Service)
	if before.UID != after.UID || cmp.Diff(before.Spec, after.Spec) != "" || cmp.Equal(before.Labels, after.Labels) {
		t.Errorf("%+v\n%+v", before, after)
	}
	if a, b := w.nodeAt(5, time.Unix(1, 0)), w.nodeAt(5, time.Unix(2, 0)); a.Key != b.Key || cmp.Equal(a.Value, b.Value) {
		t.Errorf("%+v\n%+v", a, b)
	}
}

func TestRangesOverlapNothing(t *testing.T) {
	var all []netip.Prefix
	for i := range 1000 {
		for _, text := range cidrsOf(i) {
			all = append(all, netip.MustParsePrefix(text))
		}
	}
	for _, p := range all {
		for _, other := range []netip.Prefix{servicesV4, supernet, rangesOf(0)[1], rangesOf(block)[1], netip.MustParsePrefix(elsewhere[0]), netip.MustParsePrefix(elsewhere[1])} {
			if p.Overlaps(other) {
				t.Errorf("%s overlaps %s", p, other)
			}
		}
	}
	if inRange(3, nil) || !inRange(3, []string{"10.128.3.9", "fd00:4::9"}) || inRange(3, []string{"10.128.3.9", "fd00:5::9"}) {
		t.Error("inRange")
	}
}

func TestQueued(t *testing.T) {
	f, err := framework.ParseMetrics(`controller_runtime_reconcile_total{controller="growth",result="success"} 9
workqueue_depth{controller="growth",name="growth",priority="0"} 2
workqueue_depth{controller="service",name="service",priority="0"} 1
controller_runtime_active_workers{controller="growth"} 1
`)
	if err != nil {
		t.Fatal(err)
	}
	if queued(f) != 4 || queued(f, "growth") != 3 || worked(f, "growth", 9) || queued(f, "ipaddress") != 0 {
		t.Errorf("%v in all, %v of growth", queued(f), queued(f, "growth"))
	}
}

func TestTargets(t *testing.T) {
	costs := func(each time.Duration) map[string]Cost {
		out := map[string]Cost{}
		for _, k := range kinds {
			out[k.name] = Cost{N: 10, Each: each}
		}
		return out
	}
	r := Result{
		Stages: []Stage{
			{Level: Level{10_000, 10}, Costs: costs(100 * time.Microsecond)},
			{Level: Level{10_000, 1_000}, Costs: costs(120 * time.Microsecond)},
			{Level: Level{100_000, 1_000}, Costs: costs(240 * time.Microsecond), Sweep: Sweep{Growing: 100, Looked: 100, Took: time.Second / 2}},
		},
		Asked: stats.Sample{1, 2}, AskedInChurn: stats.Sample{3}, Churned: Turnover{Services: 500, Took: 10 * time.Second},
		Handovers: []Handover{{How: "stopped", Leads: time.Second, Stray: 1}},
	}
	if got := r.Tables()[1].Rows[0][1:]; cmp.Diff([]string{"100", "120", "240", "1.20", "2.00"}, got) != "" {
		t.Errorf("events %q", got)
	}
	if got := r.Tables()[1].Header[4:]; cmp.Diff([]string{"1,000 : 10 ranges", "100,000 : 10,000 Services"}, got) != "" {
		t.Errorf("header %q", got)
	}
	notes := strings.Join(r.Notes(), "\n")
	for _, want := range []string{
		"Churn: 50.0 writes", "Target reached: a heartbeat of a node for at most 1.30 times as much, 1,000 : 10 ranges (1.20)",
		"Target missed: a heartbeat of a node for at most 1.30 times as much, 100,000 : 10,000 Services (2.00)",
		"Target reached: looks at 100 growing policies", "Target missed: another replica leads within 3.00 s when the leader is stopped, and no Service is unsteered (1.00 s, 1)",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q lacks %q", notes, want)
		}
	}
}
