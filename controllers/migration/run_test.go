package migration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

func TestArrange(t *testing.T) {
	create := Step{Do: CreateIPAddress, Address: addr("10.0.0.1"), Service: NamespacedName(nsName("a"))}
	remove := Step{Do: DeleteIPAddress, Address: addr("10.0.0.2"), UID: "u", ResourceVersion: "7"}
	replace := Step{Do: ReplaceIPAddress, Address: addr("10.0.0.3"), Service: NamespacedName(nsName("a")), UID: "v", ResourceVersion: "7"}
	label := Step{Do: RelabelIPAddress, Address: addr("10.0.0.4"), Service: NamespacedName(nsName("a")), UID: "w", ResourceVersion: "7"}
	cidr := Step{Do: CreateServiceCIDR, CIDRs: nets("10.0.0.0/24")}
	all := []Step{create, remove, replace, label, cidr}
	younger := remove
	younger.ResourceVersion = "8"

	for name, tc := range map[string]struct {
		r                                Runner
		approved, seen                   []Step
		wantNow, wantLater, wantWithheld []Step
	}{
		"everything is approved of":         {wantNow: []Step{create, label, cidr}, wantLater: []Step{remove, replace}},
		"the second time":                   {seen: []Step{remove, replace}, wantNow: all},
		"one is new":                        {seen: []Step{replace}, wantNow: []Step{create, replace, label, cidr}, wantLater: []Step{remove}},
		"nothing is approved of":            {approved: []Step{}, seen: all, wantNow: []Step{create, label, cidr}, wantWithheld: []Step{remove, replace}},
		"one is approved of":                {approved: []Step{replace}, seen: []Step{replace}, wantNow: []Step{create, replace, label, cidr}, wantWithheld: []Step{remove}},
		"the object has changed since":      {approved: []Step{younger}, seen: []Step{younger}, wantNow: []Step{create, remove, label, cidr}, wantWithheld: []Step{replace}},
		"what exists stays as it is":        {r: Runner{CreateOnly: true}, seen: all, wantNow: []Step{create, cidr}, wantWithheld: []Step{remove, replace, label}},
		"it stays although it was approved": {r: Runner{CreateOnly: true}, approved: all, seen: all, wantNow: []Step{create, cidr}, wantWithheld: []Step{remove, replace, label}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]bool{}
			for _, s := range tc.seen {
				seen[s.key()] = true
			}
			got := arrange(all, tc.r.permits(tc.approved), seen)
			mustEqual(t, "now", got.now, tc.wantNow)
			mustEqual(t, "later", got.later, tc.wantLater)
			mustEqual(t, "withheld", got.withheld, tc.wantWithheld)
			for _, s := range tc.wantLater {
				if !seen[s.key()] {
					t.Errorf("%s was put off and is not remembered", stepText(s))
				}
			}
		})
	}
}

// The ServiceCIDR goes first, so that IPAddresses have a range, and bitmaps last.
func TestPhases(t *testing.T) {
	var all []Step
	for i := range 30 {
		all = append(all, Step{Do: Actions[i*5%len(Actions)], UID: "u", Key: fmt.Sprint(i)})
	}
	got := phases(all)
	if len(got) != 3 {
		t.Fatalf("%d phases", len(got))
	}
	for _, s := range got[0] {
		if s.Do != CreateServiceCIDR && s.Do != ReplaceServiceCIDR {
			t.Errorf("%s is in the phase of ServiceCIDRs", s.Do)
		}
	}
	for _, s := range got[1] {
		if !strings.HasSuffix(string(s.Do), "IPAddress") {
			t.Errorf("%s is in the phase of IPAddresses", s.Do)
		}
	}
	for _, s := range got[2] {
		if s.Do != RepairBitmap {
			t.Errorf("%s is in the phase of bitmaps", s.Do)
		}
	}
	key := func(s Step) string { return s.Key }
	rest, want := textsOf(slices.Concat(got...), key), textsOf(all, key)
	slices.Sort(rest)
	slices.Sort(want)
	mustEqual(t, "steps of all phases", rest, want)
}

// What no step mends, and stops a flip, is told at the end.
func TestUnsettled(t *testing.T) {
	p := NewPlan(healthy().but(func(w *Snapshot) {
		w.Services = append(w.Services, aged(aService("late", "10.0.0.2"), 0), aService("far", "192.0.2.1"), aService("odd", "x"), aService("new", "10.0.0.9"))
		w.IPAddresses[1].Service = nsName("gone")
		w.ServiceCIDRs[0].CIDRs, w.ServiceCIDRs[0].Finalizers = nets("10.7.0.0/24"), []string{"held"}
		w.Bitmaps[0] = aBitmap(KeyPrimary, "10.0.0.0/24", "10.0.0.77")
	}), Options{RepairBitmap: true})
	mustEqual(t, "unsettled", textsOf(unsettled(p), findingText), []string{
		"DefaultServiceCIDRWrong (ServiceCIDR kubernetes)",
		"DuplicateClusterIP 10.0.0.2 (Service ns/b, Service ns/late, IPAddress 10.0.0.2)",
		"InvalidClusterIP (Service ns/odd)", "OutOfRange 192.0.2.1 (Service ns/far)",
	})
	if n := len(p.Findings); n < 6 {
		t.Errorf("asking has changed the plan: %d findings are left", n)
	}
}

// seeder writes straight into a memory, as `seed --offline` does.
func seeder(m *memory) Runner {
	return Runner{Sources: m.sources(), Progress: &silent{}, ThroughStore: true, LeakGrace: time.Minute}
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
	if n := m.count("Commit"); n != 3 { // 127, 127, 46
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
	if len(o.ManagedFields) != 1 || o.ManagedFields[0].Manager != v1alpha1.ManagerMigration || newIPAddressOf(o).ByAPIServer {
		t.Errorf("it is signed by %v", o.ManagedFields)
	}
	if o.UID == m.now("ipaddresses/fd00::2").Object.(*networkingv1.IPAddress).UID {
		t.Error("two objects have one UID")
	}
	want.UID, want.CreationTimestamp, want.ManagedFields, want.ResourceVersion = o.UID, o.CreationTimestamp, o.ManagedFields, o.ResourceVersion
	mustEqual(t, "IPAddress", o, want)
}

func newIPAddressOf(o *networkingv1.IPAddress) IPAddress { ip, _ := newIPAddress(o); return ip }

// Each IPAddress is named in the note of its transaction, and in no other.
func TestNotes(t *testing.T) {
	m := bare(150)
	must(seeder(m).Run(t.Context(), nil))
	named := map[string]int64{}
	for key, v := range m.state(m.revision) {
		if strings.HasPrefix(key, prefixNotes) {
			for _, a := range addressesOf(t, v) {
				if named[a] != 0 {
					t.Errorf("%s is in two notes", a)
				}
				named[a] = v.CreateRevision
			}
		}
	}
	for key, v := range m.state(m.revision) {
		if a, ok := strings.CutPrefix(key, prefixIPAddresses); ok && named[a] != v.ModRevision {
			t.Errorf("%s is of revision %d, its note of %d", key, v.ModRevision, named[a])
		}
	}
	if len(named) != 300 {
		t.Errorf("%d addresses are noted", len(named))
	}
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

// Somebody creates an IPAddress while we do: his stays, all others are written.
func TestSeedBesideSomebody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := bare(100)
		theirs := labelled(anIP("10.0.0.7", ""), "example.com", "IPv4")
		m.before = func(c call) error {
			if c.op == "Commit" {
				m.before = nil
				m.put(Write{Key: "ipaddresses/10.0.0.7", Object: objectOf(theirs)})
			}
			return nil
		}
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

// While anything is there that nobody understands, not a byte is written.
func TestRunRefuses(t *testing.T) {
	for name, change := range map[string]func(*memory){
		"a broken Service":     func(m *memory) { m.put(Write{Key: "services/specs/ns/x", Raw: []byte("?")}) },
		"a broken IPAddress":   func(m *memory) { m.put(Write{Key: "ipaddresses/10.0.0.1", Raw: []byte("?")}) },
		"a broken ServiceCIDR": func(m *memory) { m.put(Write{Key: "servicecidrs/x", Raw: []byte("?")}) },
		"a broken bitmap":      func(m *memory) { m.put(Write{Key: KeyPrimary, Raw: []byte("?")}) },
		"an encrypted bitmap":  func(m *memory) { m.put(Write{Key: KeySecondary, Raw: []byte("k8s:enc:aescbc:v1:key1:x")}) },
		"swapped bitmaps": func(m *memory) {
			api := aService("kubernetes", "10.0.0.1")
			api.Name.Namespace = "default"
			m.putService(api)
			m.putBitmap(KeyPrimary, aBitmap("", "fd00::/112").Bitmap)
			m.putBitmap(KeySecondary, aBitmap("", "10.0.0.0/20").Bitmap)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := bare(3)
			change(m)
			before := m.String()
			got, err := seeder(m).Run(t.Context(), nil)
			var blocked *BlockedError
			if !errors.As(err, &blocked) || len(blocked.Findings) == 0 {
				t.Errorf("error %v", err)
			}
			if got.Tried || got.Written != 0 || m.count("Commit") != 0 || m.String() != before {
				t.Errorf("%d written, %d commits", got.Written, m.count("Commit"))
			}
		})
	}
}

func TestBlockedErrorNamesTheRest(t *testing.T) {
	f := Finding{Kind: BitmapUnreadable, Objects: []string{KeyPrimary}, Detail: "damaged", Plan: "rebuild it"}
	for n, want := range map[int]string{
		1: "BitmapUnreadable (ranges/serviceips): damaged rebuild it",
		3: "BitmapUnreadable (ranges/serviceips): damaged rebuild it (and 2 more; `migrate check` lists them)",
	} {
		if got := (&BlockedError{slices.Repeat([]Finding{f}, n)}).Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// worn is a cluster with something to destroy: an orphan and an IPAddress of another Service.
func worn() *memory {
	m := bare(2)
	m.put(Write{Key: "ipaddresses/10.0.0.1", Object: objectOf(anIP("10.0.0.1", "gone"))})
	m.put(Write{Key: "ipaddresses/10.0.0.9", Object: objectOf(anIP("10.0.0.9", "gone"))})
	return m
}

// What destroys is done when it was found twice, some seconds apart.
func TestRunDestroysWhatItFoundTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, begin := worn(), time.Now()
		old := m.now("ipaddresses/10.0.0.1").Object.(*networkingv1.IPAddress)
		var destroyed []time.Duration
		m.before = func(c call) error {
			if c.op == "Commit" && c.size == 1 {
				destroyed = append(destroyed, time.Since(begin))
			}
			return nil
		}
		got, err := seeder(m).Run(t.Context(), nil)
		if err != nil || got.Written != 5 || got.Last.OK != 4 || len(got.Unsettled) > 0 { // three creations
			t.Errorf("written %d, ok %d, unsettled %v, %v", got.Written, got.Last.OK, textsOf(got.Unsettled, findingText), err)
		}
		mustEqual(t, "destroyed after", destroyed, []time.Duration{confirmAfter, confirmAfter})
		now := m.now("ipaddresses/10.0.0.1").Object.(*networkingv1.IPAddress)
		if m.now("ipaddresses/10.0.0.9").Exists() || upstream.Service(now) != nsName("s0000") || now.UID == old.UID {
			t.Errorf("there is\n%s", m)
		}
	})
}

// Between the two looks it was mended: a Service came for the orphan, the IPAddress of the other was written anew.
func TestRunDoesNotDestroyWhatWasMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := worn()
		time.AfterFunc(time.Second, func() {
			m.putService(aService("gone", "10.0.0.9"))
			m.put(Write{Key: "ipaddresses/10.0.0.1", Object: objectOf(anIP("10.0.0.1", "s0000"))})
		})
		got, err := seeder(m).Run(t.Context(), nil)
		if err != nil || got.Written != 3 || len(got.Withheld) > 0 {
			t.Errorf("written %d, withheld %v, %v", got.Written, textsOf(got.Withheld, stepText), err)
		}
		for _, a := range []string{"10.0.0.1", "10.0.0.9"} {
			if o, _ := m.now("ipaddresses/" + a).Object.(*networkingv1.IPAddress); o == nil || o.UID != anIP(a, "").UID {
				t.Errorf("%s was destroyed", a)
			}
		}
	})
}

// With a plan in hand, what it does not list is not destroyed, and what it lists is destroyed at once: it was found before.
func TestRunKeepsToThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, begin := worn(), time.Now()
		p := NewPlan(m.snapshot(t), Options{})
		approved := slices.DeleteFunc(slices.Clone(p.Steps), func(s Step) bool { return s.Do == DeleteIPAddress })
		m.putService(aService("since", "10.0.0.77")) // creations for Services that came since are done

		got, err := seeder(m).Run(t.Context(), approved)
		if err != nil || got.Written != 5 || time.Since(begin) != 0 {
			t.Errorf("written %d after %v, %v", got.Written, time.Since(begin), err)
		}
		mustEqual(t, "withheld", textsOf(got.Withheld, func(s Step) string { return s.What() }), []string{"10.0.0.9"})
		if !m.now("ipaddresses/10.0.0.77").Exists() || !m.now("ipaddresses/10.0.0.9").Exists() {
			t.Errorf("there is\n%s", m)
		}

		got, err = seeder(m).Run(t.Context(), []Step{}) // a plan of nothing
		if err != nil || got.Written != 0 || len(got.Withheld) != 1 {
			t.Errorf("written %d, withheld %d, %v", got.Written, len(got.Withheld), err)
		}
	})
}

// The plan is of yesterday: today another object has that name.
func TestRunDestroysTheObjectOfThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := worn()
		approved := NewPlan(m.snapshot(t), Options{}).Steps
		other := anIP("10.0.0.9", "gone")
		other.UID = "another"
		m.put(Write{Key: "ipaddresses/10.0.0.9", Object: objectOf(other)})
		got, err := seeder(m).Run(t.Context(), approved)
		if err != nil || len(got.Withheld) != 1 || !m.now("ipaddresses/10.0.0.9").Exists() {
			t.Errorf("withheld %v, %v", textsOf(got.Withheld, stepText), err)
		}
	})
}

func TestCreateOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := worn()
		m.put(Write{Key: "ipaddresses/10.0.0.2", Object: objectOf(labelled(anIP("10.0.0.2", "s0001"), "", ""))})
		before := map[string]int64{}
		for key, v := range m.state(m.revision) {
			before[key] = v.ModRevision
		}
		r := seeder(m)
		r.CreateOnly = true
		got, err := r.Run(t.Context(), nil)
		if err != nil || got.Written != 2 || len(got.Withheld) != 3 {
			t.Errorf("written %d, withheld %v, %v", got.Written, textsOf(got.Withheld, stepText), err)
		}
		for key, revision := range before {
			if m.now(key).ModRevision != revision {
				t.Errorf("%s existed and was changed", key)
			}
		}
	})
}

// Services come all the time: the run ends when what it found at first is done, and says how many it leaves to others.
func TestRunEndsInAClusterThatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, born := bare(3), 0
		m.before = func(c call) error {
			if c.op == "List" && c.key == prefixIPAddresses {
				born++
				m.putService(aService(fmt.Sprint("born", born), fmt.Sprintf("10.0.9.%d", born)))
			}
			return nil
		}
		// The listing is of the revision of the bitmaps, so that each look misses the Service of that moment.
		got, err := seeder(m).Run(t.Context(), nil)
		if err != nil || got.Written != 6 || got.Fresh != 1 || len(got.Withheld) > 0 {
			t.Errorf("written %d, fresh %d, withheld %d, %v", got.Written, got.Fresh, len(got.Withheld), err)
		}
	})
}

// Each time the Service of an IPAddress that was just written goes, and another comes: nobody undoes anything.
func TestRunEndsWhereServicesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, born := bare(3), []Service{aService("s0000")}
		m.before = func(c call) error {
			if c.op == "List" && c.key == prefixIPAddresses {
				born = append(born, aService(fmt.Sprint("born", len(born)), fmt.Sprintf("10.0.9.%d", len(born))))
				m.putService(born[len(born)-1]) // which only the next look sees
			}
			return nil
		}
		m.after = func(c call) error {
			if c.op == "Commit" {
				m.remove(keyOfService(born[len(born)-2]))
			}
			return nil
		}
		got, err := seeder(m).Run(t.Context(), nil)
		if err != nil || got.Written != 6 || got.Fresh != 3 || len(got.Withheld) > 0 {
			t.Errorf("written %d, fresh %d, withheld %d, %v", got.Written, got.Fresh, len(got.Withheld), err)
		}
	})
}

// Somebody undoes what we do, each time: that is said, not called done.
func TestRunIsUndone(t *testing.T) {
	const missing, orphan = "ipaddresses/10.0.0.1", "ipaddresses/10.0.0.9"
	for name, undo := range map[string]func(m *memory, round int){
		"deletes it": func(m *memory, _ int) { m.remove(missing) },
		"takes its labels": func(m *memory, _ int) {
			m.put(Write{Key: missing, Object: objectOf(labelled(anIP("10.0.0.1", "s0000"), "", ""))})
		},
		"gives it to another": func(m *memory, _ int) { m.put(Write{Key: missing, Object: objectOf(anIP("10.0.0.1", "another"))}) },
		"puts it back": func(m *memory, round int) {
			if again := anIP("10.0.0.9", "gone"); !m.now(orphan).Exists() {
				again.UID = types.UID(fmt.Sprint("again", round)) // an object of that name is another one
				m.put(Write{Key: orphan, Object: objectOf(again)})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := bare(1)
				m.put(Write{Key: orphan, Object: objectOf(anIP("10.0.0.9", "gone"))})
				m.after = func(c call) error {
					if c.op == "Commit" {
						undo(m, c.at)
					}
					return nil
				}
				got, err := seeder(m).Run(t.Context(), nil)
				if err == nil || got.Written == 0 {
					t.Errorf("written %d, %v", got.Written, err)
				}
			})
		})
	}
}

// A store in which every guard fails is no success.
func TestRunNeverComesThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := bare(1)
		m.before = func(c call) error {
			if c.op == "Commit" {
				return ErrConflict
			}
			return nil
		}
		if got, err := seeder(m).Run(t.Context(), nil); err == nil || got.Written != 0 || !got.Tried {
			t.Errorf("written %d, %v", got.Written, err)
		}
	})
}

// An error in the middle is told with what was being done; what was written before counts.
func TestRunFailsInTheMiddle(t *testing.T) {
	m, gone := bare(150), errors.New("etcd is gone")
	m.before = func(c call) error {
		if c.op == "Commit" && c.at == 1 {
			return gone
		}
		return nil
	}
	p := &silent{}
	r := seeder(m)
	r.Progress = p
	got, err := r.Run(t.Context(), nil)
	if !errors.Is(err, gone) || !got.Tried || got.Written != 127 || p.done != 127 || !p.ended {
		t.Errorf("written %d, progress %+v, %v", got.Written, p, err)
	}
	m.before = nil
	must(seeder(m).Run(t.Context(), nil))
	if w := m.snapshot(t); len(w.IPAddresses) != 300 {
		t.Errorf("%d IPAddresses when it was run again", len(w.IPAddresses))
	}
}

func TestRunIsToldToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Second) // in the pause before it destroys
		defer stop()
		m := worn()
		got, err := seeder(m).Run(ctx, nil)
		if !errors.Is(err, context.DeadlineExceeded) || got.Written != 3 || !m.now("ipaddresses/10.0.0.9").Exists() {
			t.Errorf("written %d, %v", got.Written, err)
		}
	})
}

// TestStoreWriter: single steps, each guarded by what the plan saw.
func TestStoreWriter(t *testing.T) {
	const key = "ipaddresses/10.0.0.5"
	there := labelled(anIP("10.0.0.5", "a"), "", "")
	for name, tc := range map[string]struct {
		do        Action
		late      func(*memory) // what somebody does between plan and step
		wantError error
		want      string // of the key; "" for gone
	}{
		"create":                       {do: CreateIPAddress, late: func(m *memory) { m.remove(key) }, want: "ns/b"},
		"create what is there":         {do: CreateIPAddress, wantError: errMoved, want: "ns/a"},
		"delete":                       {do: DeleteIPAddress},
		"delete what has changed":      {do: DeleteIPAddress, late: func(m *memory) { m.put(Write{Key: key, Object: objectOf(there)}) }, wantError: errMoved, want: "ns/a"},
		"delete what is gone":          {do: DeleteIPAddress, late: func(m *memory) { m.remove(key) }, wantError: errMoved},
		"replace":                      {do: ReplaceIPAddress, want: "ns/b"},
		"replace what has changed":     {do: ReplaceIPAddress, late: func(m *memory) { m.put(Write{Key: key, Object: objectOf(there)}) }, wantError: errMoved, want: "ns/a"},
		"relabel":                      {do: RelabelIPAddress, want: "ns/a ipallocator.k8s.io IPv4"},
		"relabel what has changed":     {do: RelabelIPAddress, late: func(m *memory) { m.put(Write{Key: key, Object: objectOf(there)}) }, wantError: errMoved, want: "ns/a"},
		"relabel what is gone":         {do: RelabelIPAddress, late: func(m *memory) { m.remove(key) }, wantError: errMoved},
		"relabel what is broken":       {do: RelabelIPAddress, late: func(m *memory) { m.put(Write{Key: key, Raw: []byte("?")}) }, wantError: errMoved, want: "?"},
		"a ServiceCIDR is not written": {do: CreateServiceCIDR, wantError: errors.New(`"CreateServiceCIDR" is not done in etcd`), want: "ns/a"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			m.put(Write{Key: key, Object: objectOf(there), APIVersion: oldVersion})
			s := Step{Do: tc.do, Address: addr("10.0.0.5"), Service: NamespacedName(nsName("b")), UID: there.UID, ResourceVersion: fmt.Sprint(m.revision)}
			if tc.late != nil {
				tc.late(m)
			}
			err := storeWriter{m, func() time.Time { return noon }}.apply(t.Context(), s)
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
	if err := (storeWriter{m, nil}).apply(t.Context(), s); err != nil {
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
	o.Labels = nil
	m.put(Write{Key: "ipaddresses/fd00::5", Object: o})
	s.ResourceVersion = fmt.Sprint(m.revision)
	if err := (storeWriter{m, nil}).apply(t.Context(), s); err != nil {
		t.Errorf("without any label: %v", err)
	}
}
