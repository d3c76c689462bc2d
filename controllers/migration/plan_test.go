package migration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
)

// healthy is a small cluster on the bitmap that is ready to flip: two Services, one of them with two families.
func healthy() Snapshot {
	return Snapshot{
		Now: noon, Allocator: AllocatorBitmap, Served: true, Revision: 11,
		Services:     []Service{aService("a", "10.0.0.1", "fd00::1"), aService("b", "10.0.0.2"), aService("headless")},
		IPAddresses:  []IPAddress{anIP("10.0.0.1", "a"), anIP("10.0.0.2", "b"), anIP("fd00::1", "a")},
		ServiceCIDRs: []ServiceCIDR{aCIDR("kubernetes", "10.0.0.0/24,fd00::/112")},
		Bitmaps:      []StoredBitmap{aBitmap(KeyPrimary, "10.0.0.0/24", "10.0.0.1", "10.0.0.2"), aBitmap(KeySecondary, "fd00::/112", "fd00::1")},
	}
}

// but returns the snapshot with something done to it.
func (w Snapshot) but(do func(*Snapshot)) Snapshot {
	w.Services, w.IPAddresses = slices.Clone(w.Services), slices.Clone(w.IPAddresses)
	w.ServiceCIDRs, w.Bitmaps = slices.Clone(w.ServiceCIDRs), slices.Clone(w.Bitmaps)
	do(&w)
	return w
}

// TestPlan has every kind of finding at least once, in worlds that are wrong in one way each.
func TestPlan(t *testing.T) {
	repair := Options{RepairBitmap: true}
	seen := map[Kind]bool{}
	for name, tc := range map[string]struct {
		change func(*Snapshot)
		o      Options
		// wantPlans has a piece of what each finding says about what to do, in the order of the findings.
		wantFindings, wantPlans, wantSteps []string
		// wantCalm: an API server that allocates from IPAddresses does not mind. wantClean: nor does an admin.
		wantCalm, wantClean bool
		wantBlocked         int
	}{
		"as it should be": {change: func(*Snapshot) {}, wantCalm: true, wantClean: true},
		"an empty cluster of which nothing is known": {
			change:       func(w *Snapshot) { *w = Snapshot{} },
			wantFindings: []string{"DefaultServiceCIDRMissing (ServiceCIDR kubernetes)"}, wantPlans: []string{"--service-cluster-ip-range"},
		},
		"a Service without IPAddress": {
			change:       func(w *Snapshot) { w.IPAddresses = w.IPAddresses[1:] },
			wantFindings: []string{"IPAddressMissing 10.0.0.1 (Service ns/a)"}, wantPlans: []string{"create it"},
			wantSteps: []string{"CreateIPAddress 10.0.0.1 for ns/a"},
		},
		"an IPAddress that a finalizer holds": {
			change:       func(w *Snapshot) { w.IPAddresses[1] = dying(w.IPAddresses[1]) },
			wantFindings: []string{"IPAddressMissing 10.0.0.2 (Service ns/b, IPAddress 10.0.0.2)"}, wantPlans: []string{"wait for the finalizer"},
		},
		"an IPAddress without Service": {
			change:       func(w *Snapshot) { w.Services = w.Services[:1] },
			wantFindings: []string{"IPAddressOrphan 10.0.0.2 (IPAddress 10.0.0.2)", "LeakedBit 10.0.0.2"}, wantPlans: []string{"delete it", "left as it is"},
			wantSteps: []string{"DeleteIPAddress 10.0.0.2 if ip-10.0.0.2@7"},
		},
		"an IPAddress without Service that somebody protects": {
			change: func(w *Snapshot) {
				w.IPAddresses = append(w.IPAddresses, heldBy(anIP("10.0.0.9", "gone"), "example.com/mine"))
			},
			wantFindings: []string{"IPAddressOrphan 10.0.0.9 (IPAddress 10.0.0.9)"}, wantPlans: []string{"whoever set the finalizer"},
		},
		"an IPAddress of another Service": {
			change:       func(w *Snapshot) { w.IPAddresses[1].Service = nsName("a") },
			wantFindings: []string{"IPAddressWrongParent 10.0.0.2 (Service ns/b, IPAddress 10.0.0.2)"}, wantPlans: []string{"delete it and create it"},
			wantSteps: []string{"ReplaceIPAddress 10.0.0.2 for ns/b if ip-10.0.0.2@7"},
		},
		"an IPAddress that lost its labels": {
			change:       func(w *Snapshot) { w.IPAddresses[1] = labelled(w.IPAddresses[1], "", "") },
			wantFindings: []string{"IPAddressWrongLabels 10.0.0.2 (Service ns/b, IPAddress 10.0.0.2)"}, wantPlans: []string{"write the labels"},
			wantSteps: []string{"RelabelIPAddress 10.0.0.2 for ns/b if ip-10.0.0.2@7"},
		},
		"a Service on an address that another manager keeps": {
			change:       func(w *Snapshot) { w.IPAddresses[1] = labelled(anIP("10.0.0.2", ""), "example.com", "IPv4") },
			wantFindings: []string{"IPAddressForeign 10.0.0.2 (Service ns/b, IPAddress 10.0.0.2)"}, wantPlans: []string{"never touched here"},
		},
		"two Services on one address, the right one is named": {
			change:       func(w *Snapshot) { w.Services = append(w.Services, aged(aService("late", "10.0.0.2"), time.Minute)) },
			wantFindings: []string{"DuplicateClusterIP 10.0.0.2 (Service ns/b, Service ns/late, IPAddress 10.0.0.2)"},
			wantPlans:    []string{"goes to Service ns/b; create the others anew"},
		},
		"two Services on one address, the wrong one is named": {
			change: func(w *Snapshot) {
				w.Services = append(w.Services, aged(aService("early", "10.0.0.2"), 2*time.Hour))
			},
			wantFindings: []string{
				"DuplicateClusterIP 10.0.0.2 (Service ns/early, Service ns/b, IPAddress 10.0.0.2)",
				"IPAddressWrongParent 10.0.0.2 (Service ns/early, Service ns/b, IPAddress 10.0.0.2)",
			},
			wantPlans: []string{"goes to Service ns/early; create the others anew", "delete it and create it"},
			wantSteps: []string{"ReplaceIPAddress 10.0.0.2 for ns/early if ip-10.0.0.2@7"},
		},
		"a Service outside of every range": {
			change:       func(w *Snapshot) { w.Services = append(w.Services, aService("far", "192.0.2.1")) },
			wantFindings: []string{"OutOfRange 192.0.2.1 (Service ns/far)"}, wantPlans: []string{"add a ServiceCIDR"},
		},
		"a Service in a ServiceCIDR that somebody added": {
			change: func(w *Snapshot) {
				w.Services = append(w.Services, aService("far", "192.0.2.1"))
				w.ServiceCIDRs = append(w.ServiceCIDRs, aCIDR("more", "192.0.2.0/24"))
			},
			wantFindings: []string{"IPAddressMissing 192.0.2.1 (Service ns/far)"}, wantPlans: []string{"create it"},
			wantSteps: []string{"CreateIPAddress 192.0.2.1 for ns/far"},
		},
		"a Service with words for an address": {
			change:       func(w *Snapshot) { w.Services = append(w.Services, aService("odd", "ten dot one")) },
			wantFindings: []string{"InvalidClusterIP (Service ns/odd)"}, wantPlans: []string{"create the Service anew"},
		},
		"a Service whose address is spelt in a way of its own": {
			change: func(w *Snapshot) {
				w.Services = append(w.Services, aService("odd", "FD00::2"))
				w.IPAddresses = append(w.IPAddresses, anIP("fd00::2", "odd"))
				w.Bitmaps[1] = aBitmap(KeySecondary, "fd00::/112", "fd00::1", "fd00::2")
			},
			wantFindings: []string{"MisspeltClusterIP (Service ns/odd)"}, wantPlans: []string{"create the Service anew"},
		},
		"no default ServiceCIDR": {
			change:       func(w *Snapshot) { w.ServiceCIDRs = nil },
			wantFindings: []string{"DefaultServiceCIDRMissing (ServiceCIDR kubernetes)"}, wantPlans: []string{"create it with 10.0.0.0/24,fd00::/112"},
			wantSteps: []string{"CreateServiceCIDR with 10.0.0.0/24,fd00::/112"},
		},
		"no default ServiceCIDR, where none can be": {
			change:       func(w *Snapshot) { w.ServiceCIDRs, w.Served = nil, false },
			wantFindings: []string{"DefaultServiceCIDRMissing (ServiceCIDR kubernetes)"}, wantPlans: []string{"the API server creates it"},
			wantCalm: true,
		},
		"a default ServiceCIDR of another range": {
			change:       func(w *Snapshot) { w.ServiceCIDRs[0].CIDRs = nets("10.9.0.0/24,fd00::/112") },
			wantFindings: []string{"DefaultServiceCIDRWrong (ServiceCIDR kubernetes)"}, wantPlans: []string{"delete it and create it with 10.0.0.0/24,fd00::/112"},
			wantSteps: []string{"ReplaceServiceCIDR if cidr-kubernetes@9 with 10.0.0.0/24,fd00::/112"},
		},
		"a default ServiceCIDR of another range that is protected": {
			change: func(w *Snapshot) {
				w.ServiceCIDRs[0].CIDRs, w.ServiceCIDRs[0].Finalizers = nets("10.9.0.0/24"), []string{"example.com/mine"}
			},
			wantFindings: []string{"DefaultServiceCIDRWrong (ServiceCIDR kubernetes)"}, wantPlans: []string{"left to those who set them: example.com/mine"},
		},
		"a default ServiceCIDR of another range, where it is not served": {
			change:       func(w *Snapshot) { w.ServiceCIDRs[0].CIDRs, w.Served = nets("10.9.0.0/24"), false },
			wantFindings: []string{"DefaultServiceCIDRWrong (ServiceCIDR kubernetes)"}, wantPlans: []string{"delete its key in etcd"},
		},
		"a default ServiceCIDR with the families the other way around": {
			change:       func(w *Snapshot) { w.ServiceCIDRs[0].CIDRs = nets("fd00::/112,10.0.0.0/24") },
			wantFindings: []string{"SecondaryRangeMislabelled (ServiceCIDR kubernetes)"}, wantPlans: []string{"delete it and create it with 10.0.0.0/24,fd00::/112"},
			wantSteps: []string{"ReplaceServiceCIDR if cidr-kubernetes@9 with 10.0.0.0/24,fd00::/112"},
		},
		"a default ServiceCIDR that is right and is being deleted": {
			change: func(w *Snapshot) {
				w.ServiceCIDRs[0].Deleting, w.ServiceCIDRs[0].Finalizers = true, []string{"example.com/mine"}
			},
			wantCalm: true, wantClean: true, // it is missing when it is gone
		},
		"an IPAddress without Service that a finalizer holds": {
			change:       func(w *Snapshot) { w.IPAddresses = append(w.IPAddresses, dying(anIP("10.0.0.9", "gone"))) },
			wantFindings: []string{"IPAddressOrphan 10.0.0.9 (IPAddress 10.0.0.9)"}, wantPlans: []string{"finalizer"},
		},
		"a bit without Service": {
			change: func(w *Snapshot) {
				w.Bitmaps[0] = aBitmap(KeyPrimary, "10.0.0.0/24", "10.0.0.1", "10.0.0.2", "10.0.0.77")
			},
			wantFindings: []string{"LeakedBit 10.0.0.77"}, wantPlans: []string{"run --repair-bitmap"}, wantCalm: true,
		},
		"a bit without Service, to be repaired": {
			change: func(w *Snapshot) {
				w.Bitmaps[0] = aBitmap(KeyPrimary, "10.0.0.0/24", "10.0.0.1", "10.0.0.2", "10.0.0.77")
			}, o: repair,
			wantFindings: []string{"LeakedBit 10.0.0.77"}, wantPlans: []string{"write the bitmap"}, wantCalm: true,
			wantSteps: []string{"RepairBitmap ranges/serviceips"},
		},
		"a Service without bit": {
			change: func(w *Snapshot) {
				w.Bitmaps[1] = aBitmap(KeySecondary, "fd00::/112", "fd00::1")
				w.Services[1].Addresses = append(w.Services[1].Addresses, addr("fd00::2"))
				w.IPAddresses = append(w.IPAddresses, anIP("fd00::2", "b"))
			},
			wantFindings: []string{"MissingBit fd00::2 (Service ns/b)"}, wantPlans: []string{"left as it is"}, wantCalm: true,
		},
		"no secondary bitmap": {
			change:       func(w *Snapshot) { w.Bitmaps = w.Bitmaps[:1] },
			wantFindings: []string{"BitmapMissing (ranges/secondaryserviceips)"}, wantPlans: []string{"`migrate rollback` builds it"}, wantCalm: true,
		},
		"bitmaps that nobody looked for": {
			change:   func(w *Snapshot) { w.Bitmaps, w.Revision = nil, 0 },
			wantCalm: true, wantClean: true,
		},
		"a bitmap that was never used": {
			change:       func(w *Snapshot) { w.Bitmaps[1] = broken(KeySecondary, bitmap.ErrUnset) },
			wantFindings: []string{"BitmapEmpty (ranges/secondaryserviceips)"}, wantPlans: []string{"left as it is"}, wantCalm: true,
		},
		"a bitmap without bits, and no Service of its family": {
			change: func(w *Snapshot) {
				w.Bitmaps[1] = aBitmap(KeySecondary, "fd00::/112")
				w.Services[0].Addresses, w.IPAddresses = w.Services[0].Addresses[:1], w.IPAddresses[:2]
			},
			wantCalm: true, wantClean: true,
		},
		"a bitmap of other bytes": {
			change:       func(w *Snapshot) { w.Bitmaps[0] = broken(KeyPrimary, errors.New("the bytes are damaged")) },
			wantFindings: []string{"BitmapUnreadable (ranges/serviceips)"}, wantPlans: []string{"leave out --etcd-servers"}, wantCalm: true, wantBlocked: 1,
		},
		"a bitmap under lock and key": {
			change:       func(w *Snapshot) { w.Bitmaps[0] = broken(KeyPrimary, fmt.Errorf("%w (by aescbc)", ErrEncrypted)) },
			wantFindings: []string{"BitmapEncrypted (ranges/serviceips)"}, wantPlans: []string{"leave out --etcd-servers"}, wantCalm: true, wantBlocked: 1,
		},
		"a bitmap of a range where no Service is": {
			change:       func(w *Snapshot) { w.Bitmaps[1] = aBitmap(KeySecondary, "fd99::/112", "fd99::1") },
			wantFindings: []string{"BitmapForeignRange (ranges/secondaryserviceips)"}, wantPlans: []string{"find out which range"}, wantCalm: true, wantBlocked: 1,
		},
		"two bitmaps of one family": {
			change:       func(w *Snapshot) { w.Bitmaps[1] = aBitmap(KeySecondary, "10.0.1.0/24") },
			wantFindings: []string{"SecondaryRangeMislabelled (ranges/secondaryserviceips)", "SecondaryRangeMislabelled (ranges/serviceips)"},
			wantPlans:    []string{"find out which range", "find out which range"}, wantBlocked: 2,
		},
		"bitmaps after the flip": {
			change:       func(w *Snapshot) { w.Allocator = AllocatorIPAddresses },
			wantFindings: []string{"StaleBitmap (ranges/secondaryserviceips)", "StaleBitmap (ranges/serviceips)"},
			wantPlans:    []string{"`migrate finalize`", "`migrate finalize`"}, wantCalm: true, wantClean: true,
		},
		"a slip of the admin's pen": {
			change: func(w *Snapshot) {
				w.Services = append(w.Services, aService("kubernetes", "10.0.0.3"))
				w.Services[3].Name.Namespace = "default"
				w.IPAddresses = append(w.IPAddresses, anIP("10.0.0.3", "kubernetes"))
				w.IPAddresses[3].Service.Namespace = "default"
				w.Given, w.Bitmaps, w.Revision = nets("10.0.0.0/24,fd00::/112"), nil, 0
			},
			wantFindings: []string{"RangeContradicted (Service default/kubernetes)"}, wantPlans: []string{"give the range as kube-apiserver is started with it"}, wantBlocked: 1,
		},
		"an object of other bytes": {
			change: func(w *Snapshot) {
				w.Unreadable = []Value{{Key: "services/specs/ns/x", Err: errors.New("the value is broken")}}
			},
			wantFindings: []string{"ObjectUnreadable (services/specs/ns/x)"}, wantPlans: []string{"repair or delete the key"}, wantBlocked: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPlan(healthy().but(tc.change), tc.o)
			for _, f := range p.Findings {
				seen[f.Kind] = true
			}
			mustEqual(t, "findings", textsOf(p.Findings, findingText), tc.wantFindings)
			mustEqual(t, "steps", textsOf(p.Steps, stepText), tc.wantSteps)
			for i, f := range p.Findings {
				if i < len(tc.wantPlans) && !strings.Contains(f.Plan, tc.wantPlans[i]) {
					t.Errorf("about %s it says %q, which does not tell to %q", findingText(f), f.Plan, tc.wantPlans[i])
				}
			}
			if got := p.ReadyToFlip(); got != tc.wantCalm {
				t.Errorf("ready to flip: %v, because of %v", got, textsOf(p.StopFlip(), findingText))
			}
			if got := p.Clean(); got != tc.wantClean {
				t.Errorf("clean: %v", got)
			}
			if got := len(p.Blocked()); got != tc.wantBlocked {
				t.Errorf("%d findings block, want %d", got, tc.wantBlocked)
			}
		})
	}
	for _, k := range kinds {
		if !seen[k.kind] {
			t.Errorf("no snapshot of this table has a finding of kind %s", k.kind)
		}
	}
}

// A finding in the two ServiceCIDRs that an API server on the bitmap knows nothing of does not stop it from being right.
func TestEverySnapshotGivesOnePlan(t *testing.T) {
	for seed := range uint64(400) {
		r := seeded(seed)
		s := randomFixture(r, 4)
		o := Options{RepairBitmap: r.IntN(2) == 0}
		want := NewPlan(s.Snapshot, o)
		if diff := planDiff(want, NewPlan(s.Snapshot, o)); diff != "" {
			t.Fatalf("seed %d: the same snapshot has two plans:\n%s", seed, diff)
		}
		if diff := planDiff(want, NewPlan(shuffled(s.Snapshot, r), o)); diff != "" {
			t.Fatalf("seed %d: in another order the snapshot has another plan (-want +got):\n%s\n%s", seed, diff, s)
		}
	}
}
