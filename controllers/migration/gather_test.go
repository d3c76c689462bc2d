package migration

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
	"github.com/clusterip-operator/clusterip-operator/internal/relation"
)

// From etcd alone a Snapshot holds everything, as it was at one revision.
func TestSnapshotFromTheStore(t *testing.T) {
	want := healthy()
	m := holding(want)
	m.put(Write{Key: "ranges/servicenodeports", Object: &corev1.RangeAllocation{Range: "30000-32767", Data: []byte{1}}})
	m.put(Write{Key: "services/endpoints/ns/a", Raw: []byte("no Service")})
	m.put(Write{Key: "services/specs/ns/broken", Raw: []byte("broken")})
	m.put(Write{Key: "ipaddresses/10.0.0.99", Object: &corev1.Namespace{}})

	revision := m.revision
	m.once("List", prefixServices, func() { // Services change between one listing and the next
		m.remove("services/specs/ns/b")
		m.putService(aService("late", "10.0.0.3"))
	})
	w := m.snapshot(t)

	if w.Revision != revision {
		t.Errorf("it is of revision %d, want %d", w.Revision, revision)
	}
	if w.Cluster != kubeSystem || w.Served || w.Allocator != AllocatorBitmap {
		t.Errorf("cluster %q, served %v, allocator %s", w.Cluster, w.Served, w.Allocator)
	}
	mustEqual(t, "Services", textsOf(w.Services, func(s Service) string { return s.Name.Name }), []string{"a", "b", "headless"})
	mustEqual(t, "IPAddresses", textsOf(w.IPAddresses, func(ip relation.IPAddress) string { return ip.Address.String() }), []string{"10.0.0.1", "10.0.0.2", "fd00::1"})
	for _, ip := range w.IPAddresses {
		if v := m.now(prefixIPAddresses + ip.Address.String()); ip.ResourceVersion == "" || (Step{ResourceVersion: ip.ResourceVersion}).revision() != v.ModRevision {
			t.Errorf("IPAddress %s is guarded by %q, its key is of revision %d", ip.Address, ip.ResourceVersion, v.ModRevision)
		}
	}
	mustEqual(t, "bitmaps", textsOf(w.Bitmaps, func(b StoredBitmap) string { return b.Key + " " + b.Range }), []string{KeyPrimary + " 10.0.0.0/24", KeySecondary + " fd00::/112"})
	mustEqual(t, "unreadable", textsOf(w.Unreadable, func(u Value) string { return u.Key + ": " + u.Err.Error() }),
		[]string{"ipaddresses/10.0.0.99: it holds a *v1.Namespace", "services/specs/ns/broken: the value, of 6 bytes, is broken"})
}

func TestStoredBitmap(t *testing.T) {
	node := &corev1.RangeAllocation{Range: "30000-32767", Data: []byte{1}}
	for name, tc := range map[string]struct {
		v    Value
		want StoredBitmap
		err  string // a piece of the error
	}{
		"in use":      {v: Value{Object: &corev1.RangeAllocation{Range: "10.0.0.0/24", Data: []byte{1}}}, want: aBitmap("", "10.0.0.0/24", "10.0.0.1")},
		"never used":  {v: Value{Object: &corev1.RangeAllocation{}}, err: bitmap.ErrUnset.Error()},
		"node ports":  {v: Value{Object: node}, want: StoredBitmap{Range: node.Range}, err: bitmap.ErrNodePorts.Error()},
		"no object":   {v: Value{}, err: "it holds a <nil> instead of a RangeAllocation"},
		"undecodable": {v: Value{Err: ErrEncrypted}, err: "encrypted"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.v.Key, tc.v.ModRevision = KeyPrimary, 5
			got := newStoredBitmap(tc.v)
			mustSay(t, got.Err, tc.err)
			got.Err, tc.want.Key, tc.want.ModRevision = nil, KeyPrimary, 5
			mustEqual(t, "bitmap", got, tc.want)
		})
	}
}

func TestAllocator(t *testing.T) {
	one := []StoredBitmap{aBitmap(KeyPrimary, "10.0.0.0/24")}
	ours, theirs := aCIDR("kubernetes", "10.0.0.0/24"), aCIDR("kubernetes", "10.0.0.0/24")
	theirs.ByAPIServer = true
	other := aCIDR("more", "10.0.1.0/24")
	other.ByAPIServer = true
	server := func(minor string, off *bool, err error) APIServer {
		return APIServer{Version: &version.Info{Major: "1", Minor: minor}, BitmapOff: off, Err: err}
	}
	for name, tc := range map[string]struct {
		minor   string
		servers []APIServer
		w       Snapshot
		want    Allocator
	}{
		"1.34 beside 1.33":                       {minor: "34", servers: []APIServer{server("34", new(true), nil), server("33", nil, nil)}, want: AllocatorBoth},
		"1.34 with dual write":                   {minor: "34", servers: []APIServer{server("34", new(false), nil)}, want: AllocatorBoth},
		"1.34 without dual write":                {minor: "34", servers: []APIServer{server("34", new(true), nil)}, want: AllocatorIPAddresses},
		"1.34 that says nothing of its gate":     {minor: "34", servers: []APIServer{server("34", nil, nil)}, want: AllocatorIPAddresses},
		"1.34 beside one that does not answer":   {minor: "34", servers: []APIServer{server("33", nil, errors.New("refused"))}, want: AllocatorIPAddresses},
		"1.32":                                   {minor: "32", want: AllocatorBitmap},
		"1.32 with the feature gate":             {minor: "32", w: Snapshot{ServiceCIDRs: []ServiceCIDR{theirs}}, want: AllocatorBoth},
		"1.33":                                   {minor: "33", w: Snapshot{ServiceCIDRs: []ServiceCIDR{theirs}}, want: AllocatorBoth},
		"1.33 without the feature gate":          {minor: "33", w: Snapshot{ServiceCIDRs: []ServiceCIDR{ours}}, want: AllocatorBitmap},
		"a vendor's 1.34":                        {minor: "34+", want: AllocatorIPAddresses},
		"down, with bitmaps":                     {w: Snapshot{Bitmaps: one, ServiceCIDRs: []ServiceCIDR{ours}}, want: AllocatorBitmap},
		"down, with the API server's range":      {w: Snapshot{Bitmaps: one, ServiceCIDRs: []ServiceCIDR{theirs}}, want: AllocatorIPAddresses},
		"down, an IPAddress is the API server's": {w: Snapshot{Bitmaps: one, ServiceCIDRs: []ServiceCIDR{ours}, IPAddresses: []relation.IPAddress{byAPIServer(anIP("10.0.0.1", "a"))}}, want: AllocatorIPAddresses},
		"1.32 with an IPAddress of its own":      {minor: "32", w: Snapshot{IPAddresses: []relation.IPAddress{byAPIServer(anIP("10.0.0.1", "a"))}}, want: AllocatorBoth},
		"down, without bitmaps":                  {w: Snapshot{ServiceCIDRs: []ServiceCIDR{ours}}, want: AllocatorUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := Sources{Servers: tc.servers}
			if tc.minor != "" {
				s.Version = &version.Info{Major: "1", Minor: tc.minor}
			}
			if got := s.allocator(tc.w); got != tc.want {
				t.Errorf("it allocates from %s, want %s", got, tc.want)
			}
		})
	}
}

// Only what two looks have found is kept: the rest was a write under way.
func TestConfirm(t *testing.T) {
	w := healthy()
	passing := w.but(func(w *Snapshot) { w.IPAddresses = w.IPAddresses[1:] })
	lasting := w.but(func(w *Snapshot) { w.IPAddresses[1].Service = nsName("x") })
	both := w.but(func(w *Snapshot) { w.IPAddresses = []relation.IPAddress{lasting.IPAddresses[1], w.IPAddresses[2]} })
	anew := lasting.but(func(w *Snapshot) { w.IPAddresses[1].UID = "anew" })
	plan := func(w Snapshot) Plan { return NewPlan(w, Options{}) }
	const wrong = "IPAddressWrongParent 10.0.0.2 (Service ns/b, IPAddress 10.0.0.2)"

	for name, tc := range map[string]struct {
		first, second           Snapshot
		wantFindings, wantSteps []string
	}{
		"nothing, then something":  {first: w, second: passing},
		"something, then nothing":  {first: passing, second: w},
		"the same twice":           {first: lasting, second: lasting, wantFindings: []string{wrong}, wantSteps: []string{"ReplaceIPAddress 10.0.0.2 for ns/b if ip-10.0.0.2@7"}},
		"one of two":               {first: both, second: lasting, wantFindings: []string{wrong}, wantSteps: []string{"ReplaceIPAddress 10.0.0.2 for ns/b if ip-10.0.0.2@7"}},
		"one, then another":        {first: passing, second: lasting},
		"the same, another object": {first: lasting, second: anew, wantFindings: []string{wrong}},
	} {
		t.Run(name, func(t *testing.T) {
			second := plan(tc.second)
			got := confirm(plan(tc.first), plan(tc.second))
			mustEqual(t, "findings", textsOf(got.Findings, findingText), tc.wantFindings)
			mustEqual(t, "steps", textsOf(got.Steps, stepText), tc.wantSteps)
			if want := len(second.Findings) - len(tc.wantFindings); got.Passing != want {
				t.Errorf("%d findings were passing, want %d", got.Passing, want)
			}
			if got.Addresses != second.Addresses || got.OK != second.OK {
				t.Errorf("it counts %d of %d, the second look %d of %d", got.OK, got.Addresses, second.OK, second.Addresses)
			}
		})
	}
}

// A Store has to be the etcd of a cluster.
func TestCheck(t *testing.T) {
	away := errors.New("away")
	for name, tc := range map[string]struct {
		change func(*memory)
		want   string // a piece of the error, "" for none
	}{
		"a cluster":      {change: func(*memory) {}},
		"none":           {change: func(m *memory) { m.remove("namespaces/kube-system") }, want: "--etcd-prefix"},
		"one under lock": {change: func(m *memory) { m.put(Write{Key: "namespaces/kube-system", Raw: []byte("k8s:enc:x")}) }},
		"nobody answers": {change: func(m *memory) { m.before = func(call) error { return away } }, want: "away"},
	} {
		t.Run(name, func(t *testing.T) {
			m := holding(Snapshot{})
			tc.change(m)
			mustSay(t, m.sources().Check(t.Context()), tc.want)
		})
	}
	if err := (Sources{}).Check(t.Context()); err != nil {
		t.Errorf("without etcd: %v", err)
	}
}
