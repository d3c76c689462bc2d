package migration

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// seeder writes straight into a memory, as `seed --offline` does.
func seeder(m *memory) Runner {
	return Runner{Sources: m.sources(), Pace: batch.Pace{Progress: &silent{}}, ThroughStore: true, LeakGrace: time.Minute}
}

// bare is a cluster on the bitmap without any IPAddress, with so many Services.
func bare(services int) *memory {
	m := holding(Snapshot{Bitmaps: []StoredBitmap{aBitmap(KeyPrimary, "10.0.0.0/20"), aBitmap(KeySecondary, "fd00::/112")}})
	m.putService(aService("headless"))
	for i := range services {
		m.putService(aService(fmt.Sprintf("s%04d", i), fmt.Sprintf("10.0.%d.%d", i/200, i%200+1), fmt.Sprintf("fd00::%x", i+1)))
	}
	return m
}

func TestSeed(t *testing.T) {
	m := bare(150)
	p := &silent{}
	r := seeder(m)
	r.Progress = p
	got, err := r.Run(t.Context(), nil)
	if err != nil || got.Written != 300 || len(got.Unsettled)+len(got.Withheld) > 0 || got.Fresh != 0 || got.Last.OK != 300 {
		t.Fatalf("written %d, unsettled %v, withheld %d, fresh %d, ok %d, %v", got.Written, textsOf(got.Unsettled, findingText), len(got.Withheld), got.Fresh, got.Last.OK, err)
	}
	if p.total != 300 || p.done != 300 || !p.ended {
		t.Errorf("progress %+v", p)
	}
	if n := m.commits(); n != 3 { // 127, 127, 46
		t.Errorf("%d transactions", n)
	}
	if w := m.snapshot(t); !func() bool { p := NewPlan(w, Options{}); return p.ReadyToFlip() }() || len(w.IPAddresses) != 300 {
		t.Errorf("%d IPAddresses, not ready to flip", len(w.IPAddresses))
	}

	v := m.now("ipaddresses/fd00::1")
	o := v.Object.(*networkingv1.IPAddress)
	want := upstream.NewIPAddress(addr("fd00::1"), nsName("s0000"))
	if v.APIVersion != "networking.k8s.io/v1" || o.UID == "" || o.CreationTimestamp.IsZero() || o.CreationTimestamp.Nanosecond() != 0 {
		t.Errorf("it is stored as %s, UID %q, created %v", v.APIVersion, o.UID, o.CreationTimestamp)
	}
	if len(o.ManagedFields) != 1 || o.ManagedFields[0].Manager != v1alpha1.ManagerMigration || upstream.WrittenByAPIServer(o) {
		t.Errorf("it is signed by %v", o.ManagedFields)
	}
	if o.UID == m.now("ipaddresses/fd00::2").Object.(*networkingv1.IPAddress).UID {
		t.Error("two objects have one UID")
	}
	want.UID, want.CreationTimestamp, want.ManagedFields, want.ResourceVersion = o.UID, o.CreationTimestamp, o.ManagedFields, o.ResourceVersion
	mustEqual(t, "IPAddress", o, want)
}

// Whenever seed dies, the next one completes it, and unseed then takes back all that both wrote.
func TestSeedIsInterrupted(t *testing.T) {
	build := func() *memory { return bare(65) }
	before := build().String()
	mustSurvive(t, build, func(m *memory, _ string) error {
		_, err := seeder(m).Run(t.Context(), nil)
		return err
	}, func(t *testing.T, m *memory, _ string) {
		if w := m.snapshot(t); len(w.IPAddresses) != 130 {
			t.Errorf("%d IPAddresses", len(w.IPAddresses))
		}
		u, err := Unseed(t.Context(), m, false)
		if err != nil || len(u.Deleted) != 130 || len(u.Kept) != 0 || m.String() != before {
			t.Errorf("unseed deletes %d, keeps %v, %v", len(u.Deleted), u.Kept, err)
		}
	})
}

// Another writer creates an IPAddress while we do: it stays, and the rest is written.
func TestSeedBesideSomebody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := bare(100)
		theirs := labelled(anIP("10.0.0.7", ""), "example.com", "IPv4")
		m.once("Commit", "", func() { m.put(Write{Key: "ipaddresses/10.0.0.7", Object: objectOf(theirs)}) })
		got, err := seeder(m).Run(t.Context(), nil)
		if err != nil || got.Written != 199 || got.Last.OK != 199 {
			t.Errorf("written %d, ok %d, %v", got.Written, got.Last.OK, err)
		}
		mustEqual(t, "unsettled", textsOf(got.Unsettled, findingText), []string{"IPAddressForeign 10.0.0.7 (Service ns/s0006, IPAddress 10.0.0.7)"})
		u := must(Unseed(t.Context(), m, false))
		if len(u.Deleted) != 199 || !m.now("ipaddresses/10.0.0.7").Exists() {
			t.Errorf("unseed deletes %d, the one of somebody else among them: %v", len(u.Deleted), !m.now("ipaddresses/10.0.0.7").Exists())
		}
	})
}

// TestStoreWriter: single steps, each guarded by what the plan saw.
func TestStoreWriter(t *testing.T) {
	const key = "ipaddresses/10.0.0.5"
	there := labelled(anIP("10.0.0.5", "a"), "", "")
	for name, tc := range map[string]struct {
		do        Action
		late      func(*memory) // what another client does between plan and step
		wantError error
		want      string // of the key; "" for gone
	}{
		"create":                       {do: CreateIPAddress, late: func(m *memory) { m.remove(key) }, want: "ns/b"},
		"create what is there":         {do: CreateIPAddress, wantError: batch.ErrMoved, want: "ns/a"},
		"delete":                       {do: DeleteIPAddress},
		"delete what has changed":      {do: DeleteIPAddress, late: func(m *memory) { m.put(Write{Key: key, Object: objectOf(there)}) }, wantError: batch.ErrMoved, want: "ns/a"},
		"replace":                      {do: ReplaceIPAddress, want: "ns/b"},
		"relabel":                      {do: RelabelIPAddress, want: "ns/a ipallocator.k8s.io IPv4"},
		"relabel what is broken":       {do: RelabelIPAddress, late: func(m *memory) { m.put(Write{Key: key, Raw: []byte("?")}) }, wantError: batch.ErrMoved, want: "?"},
		"a ServiceCIDR is not written": {do: CreateServiceCIDR, wantError: errors.New(`"CreateServiceCIDR" is not done in etcd`), want: "ns/a"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			m.put(Write{Key: key, Object: objectOf(there), APIVersion: oldVersion})
			s := Step{Do: tc.do, Address: addr("10.0.0.5"), Service: "ns/b", UID: there.UID, ResourceVersion: fmt.Sprint(m.revision)}
			if tc.late != nil {
				tc.late(m)
			}
			err := storeWriter{Store: m, Clock: clocktesting.NewFakePassiveClock(noon)}.apply(t.Context(), s)
			if !errors.Is(err, tc.wantError) && fmt.Sprint(err) != fmt.Sprint(tc.wantError) {
				t.Errorf("error %v, want %v", err, tc.wantError)
			}
			if got := ownerText(m.now(key)); got != tc.want && !strings.HasPrefix(got, tc.want+" ") {
				t.Errorf("it is of %q, want %q", got, tc.want)
			}
		})
	}
}

func ownerText(v Value) string {
	if o, ok := v.Object.(*networkingv1.IPAddress); ok {
		return upstream.Service(o).String() + " " + o.Labels[networkingv1.LabelManagedBy] + " " + o.Labels[networkingv1.LabelIPAddressFamily]
	}
	return string(v.Raw)
}

// Labels are written and nothing else: other labels, the parent and the stored version stay.
func TestRelabelChangesLabelsAlone(t *testing.T) {
	m := newMemory()
	o := objectOf(anIP("fd00::5", "a"))
	o.Labels = map[string]string{"mine": "yes"}
	o.Finalizers = []string{"example.com/held"}
	m.put(Write{Key: "ipaddresses/fd00::5", Object: o, APIVersion: oldVersion})
	s := Step{Do: RelabelIPAddress, Address: addr("fd00::5"), ResourceVersion: fmt.Sprint(m.revision)}
	if err := (storeWriter{Store: m}).apply(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	v := m.now("ipaddresses/fd00::5")
	got := v.Object.(*networkingv1.IPAddress)
	o.Labels = map[string]string{"mine": "yes"}
	maps.Copy(o.Labels, upstream.Labels(addr("fd00::5")))
	o.ResourceVersion = got.ResourceVersion
	mustEqual(t, "IPAddress", got, o)
	if v.APIVersion != oldVersion {
		t.Errorf("it is stored as %s now", v.APIVersion)
	}
}

// seededCluster has 8 seeded IPAddresses, and one that was there before.
func seededCluster(t *testing.T) *memory {
	t.Helper()
	m := bare(4)
	m.put(Write{Key: "ipaddresses/10.0.0.99", Object: objectOf(labelled(anIP("10.0.0.99", ""), "example.com", "IPv4"))})
	if got := must(seeder(m).Run(t.Context(), nil)); got.Written != 8 {
		t.Fatalf("%d were seeded", got.Written)
	}
	return m
}

func TestUnseed(t *testing.T) {
	m := seededCluster(t)
	o := m.now("ipaddresses/10.0.0.1")
	m.put(Write{Key: o.Key, Object: o.Object}) // another client has touched it
	m.remove("ipaddresses/10.0.0.2")           // and deleted this one
	m.remove("ipaddresses/10.0.0.3")           // and written this one anew
	m.put(Write{Key: "ipaddresses/10.0.0.3", Object: objectOf(anIP("10.0.0.3", "s0002"))})

	before := m.String()
	preview, err := Unseed(t.Context(), m, true)
	if err != nil || m.String() != before {
		t.Fatalf("a preview has changed something, or failed: %v", err)
	}
	u, err := Unseed(t.Context(), m, false)
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, "what the preview said", preview, u)
	slices.Sort(u.Deleted)
	mustEqual(t, "deleted", u.Deleted, []string{"10.0.0.4", "fd00::1", "fd00::2", "fd00::3", "fd00::4"})
	mustEqual(t, "kept", u.Kept, []string{"10.0.0.1", "10.0.0.3"})
	left := slices.DeleteFunc(strings.Split(m.String(), "\n"), func(line string) bool { return !strings.HasPrefix(line, "ipaddresses/") })
	if len(left) != 3 {
		t.Errorf("left are\n%s", strings.Join(left, "\n"))
	}
	if again, err := Unseed(t.Context(), m, false); err != nil || len(again.Deleted)+len(again.Kept) > 0 {
		t.Errorf("a second time: %+v, %v", again, err)
	}
}

func TestUnseedIsInterrupted(t *testing.T) {
	mustSurvive(t, func() *memory {
		m := bare(10)
		must(seeder(m).Run(t.Context(), nil))
		m.putService(aService("late", "10.0.0.99")) // so that there are two notes
		must(seeder(m).Run(t.Context(), nil))
		return m
	}, func(m *memory, _ string) error {
		_, err := Unseed(t.Context(), m, false)
		return err
	}, func(t *testing.T, m *memory, _ string) {
		for key := range m.state(m.revision) {
			if strings.HasPrefix(key, prefixNotes) || strings.HasPrefix(key, prefixIPAddresses) {
				t.Errorf("%s is left", key)
			}
		}
	})
}

// An object changes between look and deletion: it is looked at again and kept, the rest goes.
func TestUnseedBesideSomebody(t *testing.T) {
	m := seededCluster(t)
	m.once("Commit", "", func() {
		o := m.now("ipaddresses/10.0.0.1")
		m.put(Write{Key: o.Key, Object: o.Object})
	})
	u, err := Unseed(t.Context(), m, false)
	if err != nil || len(u.Deleted) != 7 || !slices.Equal(u.Kept, []string{"10.0.0.1"}) {
		t.Errorf("%+v, %v", u, err)
	}
}

// Forget deletes all notes, however many, and nothing else; then nothing is seeded any more.
func TestForget(t *testing.T) {
	m := seededCluster(t)
	for i := range 300 {
		m.put(Write{Key: fmt.Sprintf("%sx%03d", prefixNotes, i), Raw: []byte(`{"addresses":[]}`)})
	}
	before := m.String()
	if n, err := Forget(t.Context(), m); err != nil || n != 301 || m.String() != before {
		t.Errorf("it forgets %d, %v", n, err)
	}
	if u := must(Unseed(t.Context(), m, false)); len(u.Deleted)+len(u.Kept) > 0 {
		t.Errorf("unseed finds %+v", u)
	}
}
