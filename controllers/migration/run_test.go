package migration

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

func TestArrange(t *testing.T) {
	create := Step{Do: CreateIPAddress, Address: addr("10.0.0.1"), Service: "ns/a"}
	remove := Step{Do: DeleteIPAddress, Address: addr("10.0.0.2"), UID: "u", ResourceVersion: "7"}
	replace := Step{Do: ReplaceIPAddress, Address: addr("10.0.0.3"), Service: "ns/a", UID: "v", ResourceVersion: "7"}
	label := Step{Do: RelabelIPAddress, Address: addr("10.0.0.4"), Service: "ns/a", UID: "w", ResourceVersion: "7"}
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
		"one is new":                        {seen: []Step{replace}, wantNow: []Step{create, replace, label, cidr}, wantLater: []Step{remove}},
		"one is approved of":                {approved: []Step{replace}, seen: []Step{replace}, wantNow: []Step{create, replace, label, cidr}, wantWithheld: []Step{remove}},
		"the object has changed since":      {approved: []Step{younger}, seen: []Step{younger}, wantNow: []Step{create, remove, label, cidr}, wantWithheld: []Step{replace}},
		"what exists stays as it is":        {r: Runner{CreateOnly: true}, seen: all, wantNow: []Step{create, cidr}, wantWithheld: []Step{remove, replace, label}},
		"it stays although it was approved": {r: Runner{CreateOnly: true}, approved: all, seen: all, wantNow: []Step{create, cidr}, wantWithheld: []Step{remove, replace, label}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := keysOf(tc.seen)
			now, later, withheld := tc.r.arrange(all, tc.approved, seen)
			mustEqual(t, "now", now, tc.wantNow)
			mustEqual(t, "later", later, tc.wantLater)
			mustEqual(t, "withheld", withheld, tc.wantWithheld)
			for _, s := range tc.wantLater {
				if !seen.Has(s.key()) {
					t.Errorf("%s was put off and is not remembered", stepText(s))
				}
			}
		})
	}
}

// While there is anything that cannot be understood, not a byte is written.
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
			if got.Tried || got.Written != 0 || m.commits() != 0 || m.String() != before {
				t.Errorf("%d written, %d commits", got.Written, m.commits())
			}
		})
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

// Between the two looks it was mended: a Service came for the orphan, the other IPAddress is new.
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

// What a plan does not list is not destroyed; what it lists is destroyed at once, as found before.
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

// The Service of each new IPAddress goes, and another comes: no program undoes anything.
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

// Another writer undoes what we do, each time: that is said, not called done.
func TestRunIsUndone(t *testing.T) {
	const missing, orphan = "ipaddresses/10.0.0.1", "ipaddresses/10.0.0.9"
	for name, undo := range map[string]func(m *memory, round int){
		"deletes it": func(m *memory, _ int) { m.remove(missing) },
		"takes its labels": func(m *memory, _ int) {
			m.put(Write{Key: missing, Object: objectOf(labelled(anIP("10.0.0.1", "s0000"), "", ""))})
		},
		"gives it to another": func(m *memory, _ int) { m.put(Write{Key: missing, Object: objectOf(anIP("10.0.0.1", "another"))}) },
		"puts it back": func(m *memory, round int) {
			again := anIP("10.0.0.9", "gone")
			if !m.now(orphan).Exists() {
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
