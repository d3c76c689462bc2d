package enforcement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// BenchmarkCreation measures what enforcement costs the creation of a dual-stack Service, with many
// exclusive ranges of both families, through a real API server, with the objects and without in
// turn. It reports medians as clients see them, and what the API server says of its plugin.
func BenchmarkCreation(b *testing.B) {
	cp, err := framework.Start(b.Context(), framework.Options{ServiceClusterIPRange: "10.96.0.0/16,fd00:10:96::/112"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cp.Stop() })
	if err := cp.InstallEnforcement(b.Context()); err != nil {
		b.Fatal(err)
	}
	for _, ranges := range []int{1, 1000, 4000} {
		b.Run(fmt.Sprintf("ranges=%d", ranges), func(b *testing.B) {
			m := meter{b: b, cp: cp, client: newClient(b, cp.AdminConfig())}
			m.data = table(ranges)
			var with, without []time.Duration
			const rounds, each = 4, 40
			for b.Loop() {
				for range rounds {
					without = append(without, m.create(each)...)
					m.enforce(true)
					m.watch(func() { with = append(with, m.create(each)...) })
					m.enforce(false)
				}
			}
			b.ReportMetric(median(without), "ms/without")
			b.ReportMetric(median(with), "ms/with")
			b.ReportMetric(1000*m.seconds/m.calls, "ms/plugin")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// table is what the API server is given for policies with a range per family, which need not exist.
func table(ranges int) map[string]string {
	var w steering.Inputs
	for i := range ranges {
		name := fmt.Sprint("tenant-", i)
		c := addressindex.ServiceCIDR{Name: name, Ready: true}
		c.Ranges = rangesOf(fmt.Sprintf("10.%d.%d.0/24", i/256, i%256), fmt.Sprintf("fd00:1::%x:0/112", i))
		w.ServiceCIDRs = append(w.ServiceCIDRs, c)
		p := &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.ServiceCIDRs, p.Spec.Exclusive = []string{name}, true
		p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tenant": name}}
		w.Policies = append(w.Policies, p)
	}
	enforced := steering.Compile(w).Enforce(room)
	if len(enforced.LeftOut) > 0 {
		panic(fmt.Sprint("left out: ", len(enforced.LeftOut)))
	}
	enforced.Data["ipv4-lengths"] = "32/0 " + enforced.Data["ipv4-lengths"]
	enforced.Data["32-0.0.0.0-0"] = "\n" + closed + "/32 nobody closed"
	return enforced.Data
}

func rangesOf(cidrs ...string) (out []allocator.Range) {
	for _, text := range cidrs {
		out = append(out, allocator.MustParseRange(text))
	}
	return out
}

func newClient(b *testing.B, config *rest.Config) client.Client {
	b.Helper()
	config.QPS = -1
	s := runtime.NewScheme()
	_, _ = clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)
	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// meter creates Services at an API server.
type meter struct {
	b      *testing.B
	cp     *framework.ControlPlane
	client client.Client
	data   map[string]string
	// seconds and calls are what the API server says of its plugin, while it enforced.
	seconds, calls float64
}

// create creates Services, and returns how long each took.
func (m *meter) create(n int) (each []time.Duration) {
	m.b.Helper()
	for range n {
		s := framework.NewService("default", "", framework.RequireDualStack())
		s.GenerateName = "bench-"
		start := time.Now()
		if err := m.client.Create(m.b.Context(), s); err != nil {
			m.b.Fatal(err)
		}
		each = append(each, time.Since(start))
		if err := m.client.Delete(m.b.Context(), s); err != nil {
			m.b.Fatal(err)
		}
	}
	return each
}

// enforce gives the API server the objects, or takes them away, and waits until it goes by that.
func (m *meter) enforce(on bool) {
	m.b.Helper()
	writes := []write{writeData, writeBinding}
	if !on {
		writes = []write{deleteBinding, deleteData}
	}
	for _, one := range writes {
		if err := carryOut(m.b.Context(), m.client, one, m.data, metav1.NamespaceDefault); err != nil {
			m.b.Fatal(err)
		}
	}
	for deadline := time.Now().Add(60 * time.Second); m.enforces() != on; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.b.Fatalf("the API server does not go by it: %v", on)
		}
	}
}

// closed is an address that no Service may have, to see whether the API server enforces.
const closed = "10.96.255.250"

// enforces reports whether the API server refuses the closed address.
func (m *meter) enforces() bool {
	m.b.Helper()
	s := framework.NewService("default", "probe", framework.WithClusterIPs(closed), framework.WithFamilies(corev1.IPv4Protocol))
	if err := m.client.Create(m.b.Context(), s); err != nil {
		return true
	}
	if err := m.client.Delete(m.b.Context(), s); err != nil {
		m.b.Fatal(err)
	}
	return false
}

// watch does something, and adds what the plugin has spent on it.
func (m *meter) watch(do func()) {
	m.b.Helper()
	const name = "apiserver_admission_controller_admission_duration_seconds"
	labels := []string{"name", "ValidatingAdmissionPolicy", "operation", "CREATE"}
	seconds, calls := m.metric(name+"_sum", labels...), m.metric(name+"_count", labels...)
	do()
	m.seconds += m.metric(name+"_sum", labels...) - seconds
	m.calls += m.metric(name+"_count", labels...) - calls
}

func (m *meter) metric(name string, labels ...string) float64 {
	m.b.Helper()
	text, err := m.cp.Client().CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(m.b.Context())
	if err != nil {
		m.b.Fatal(err)
	}
	metrics, err := framework.ParseMetrics(string(text))
	if err != nil {
		m.b.Fatal(err)
	}
	value, _ := metrics.Value(name, labels...)
	return value
}

// median is in milliseconds.
func median(all []time.Duration) float64 {
	slices.Sort(all)
	return all[len(all)/2].Seconds() * 1000
}
