package migration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
	"github.com/clusterip-operator/clusterip-operator/internal/relation"
)

// healthy is a small cluster on the bitmap that is ready to flip: two Services, one dual-stack.
func healthy() Snapshot {
	return Snapshot{
		Now: noon, Allocator: AllocatorBitmap, Served: true, Revision: 11,
		Services:     []Service{aService("a", "10.0.0.1", "fd00::1"), aService("b", "10.0.0.2"), aService("headless")},
		IPAddresses:  []relation.IPAddress{anIP("10.0.0.1", "a"), anIP("10.0.0.2", "b"), anIP("fd00::1", "a")},
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

// TestPlan has every kind of finding at least once, in clusters that are wrong in one way each.
func TestPlan(t *testing.T) {
	seen := map[Kind]bool{}
	for name, tc := range map[string]struct {
		change func(*Snapshot)
		repair bool
		want   []string // the findings, each with a piece of what to do about it, and the steps
	}{
		"as it should be": {change: func(*Snapshot) {}},
		"an empty cluster of which nothing is known": {
			change: func(w *Snapshot) { *w = Snapshot{} },
			want:   []string{"DefaultServiceCIDRMissing (ServiceCIDR kubernetes): --service-cluster-ip-range"},
		},
		"a Service without IPAddress": {
			change: func(w *Snapshot) { w.IPAddresses = w.IPAddresses[1:] },
			want:   []string{"IPAddressMissing 10.0.0.1 (Service ns/a): create it", "-> CreateIPAddress 10.0.0.1 for ns/a"},
		},
		"an IPAddress that a finalizer holds": {
			change: func(w *Snapshot) { w.IPAddresses[1] = dying(w.IPAddresses[1]) },
			want:   []string{"IPAddressMissing 10.0.0.2 (Service ns/b, IPAddress 10.0.0.2): wait for the finalizer"},
		},
		"a Service in a range that is being deleted": { // the finalizer holds the range because of it
			change: func(w *Snapshot) {
				leaving := aCIDR("leaving", "10.1.0.0/24")
				leaving.Deleting = true
				w.ServiceCIDRs = append(w.ServiceCIDRs, leaving)
				w.Services, w.IPAddresses = append(w.Services, aService("c", "10.1.0.1")), append(w.IPAddresses, anIP("10.1.0.1", "c"))
			},
		},
		"an IPAddress without Service": {
			change: func(w *Snapshot) { w.Services = w.Services[:1] },
			want: []string{
				"IPAddressOrphan 10.0.0.2 (IPAddress 10.0.0.2): delete it",
				"LeakedBit 10.0.0.2: left as it is",
				"-> DeleteIPAddress 10.0.0.2 if ip-10.0.0.2@7",
			},
		},
		"an IPAddress without Service that somebody protects": {
			change: func(w *Snapshot) {
				w.IPAddresses = append(w.IPAddresses, finalized(anIP("10.0.0.9", "gone")))
			},
			want: []string{"IPAddressOrphan 10.0.0.9 (IPAddress 10.0.0.9): the controller that set the finalizer"},
		},
		"an IPAddress of another Service": {
			change: func(w *Snapshot) { w.IPAddresses[1].Service = nsName("a") },
			want: []string{
				"IPAddressWrongParent 10.0.0.2 (Service ns/b, IPAddress 10.0.0.2): delete it and create it",
				"-> ReplaceIPAddress 10.0.0.2 for ns/b if ip-10.0.0.2@7",
			},
		},
		"an IPAddress that lost its labels": {
			change: func(w *Snapshot) { w.IPAddresses[1] = labelled(w.IPAddresses[1], "", "") },
			want: []string{
				"IPAddressWrongLabels 10.0.0.2 (Service ns/b, IPAddress 10.0.0.2): write the labels",
				"-> RelabelIPAddress 10.0.0.2 for ns/b if ip-10.0.0.2@7",
			},
		},
		"a Service on an address that another manager keeps": {
			change: func(w *Snapshot) { w.IPAddresses[1] = labelled(anIP("10.0.0.2", ""), "example.com", "IPv4") },
			want:   []string{"IPAddressForeign 10.0.0.2 (Service ns/b, IPAddress 10.0.0.2): never touched here"},
		},
		"two Services on one address, the right one is named": {
			change: func(w *Snapshot) { w.Services = append(w.Services, aged(aService("late", "10.0.0.2"), time.Minute)) },
			want:   []string{"DuplicateClusterIP 10.0.0.2 (Service ns/b, Service ns/late, IPAddress 10.0.0.2): the IPAddress goes to Service ns/b; create ns/late anew, so that it gets an address of its own"},
		},
		"two Services on one address, the wrong one is named": {
			change: func(w *Snapshot) { w.Services = append(w.Services, aged(aService("early", "10.0.0.2"), 2*time.Hour)) },
			want: []string{
				"DuplicateClusterIP 10.0.0.2 (Service ns/early, Service ns/b, IPAddress 10.0.0.2): the IPAddress goes to Service ns/early; create ns/b anew, so that it gets an address of its own",
				"IPAddressWrongParent 10.0.0.2 (Service ns/early, Service ns/b, IPAddress 10.0.0.2): delete it and create it",
				"-> ReplaceIPAddress 10.0.0.2 for ns/early if ip-10.0.0.2@7",
			},
		},
		"a Service outside of every range": {
			change: func(w *Snapshot) { w.Services = append(w.Services, aService("far", "192.0.2.1")) },
			want:   []string{"OutOfRange 192.0.2.1 (Service ns/far): add a ServiceCIDR"},
		},
		"a Service in a ServiceCIDR that somebody added": {
			change: func(w *Snapshot) {
				w.Services = append(w.Services, aService("far", "192.0.2.1"))
				w.ServiceCIDRs = append(w.ServiceCIDRs, aCIDR("more", "192.0.2.0/24"))
			},
			want: []string{"IPAddressMissing 192.0.2.1 (Service ns/far): create it", "-> CreateIPAddress 192.0.2.1 for ns/far"},
		},
		"a Service with words for an address": {
			change: func(w *Snapshot) { w.Services = append(w.Services, aService("odd", "ten dot one")) },
			want:   []string{"InvalidClusterIP (Service ns/odd): create the Service anew"},
		},
		"a Service whose address is spelt in a way of its own": {
			change: func(w *Snapshot) {
				w.Services = append(w.Services, aService("odd", "FD00::2"))
				w.IPAddresses = append(w.IPAddresses, anIP("fd00::2", "odd"))
				w.Bitmaps[1] = aBitmap(KeySecondary, "fd00::/112", "fd00::1", "fd00::2")
			},
			want: []string{"MisspeltClusterIP (Service ns/odd): create the Service anew"},
		},
		"no default ServiceCIDR": {
			change: func(w *Snapshot) { w.ServiceCIDRs = nil },
			want: []string{
				"DefaultServiceCIDRMissing (ServiceCIDR kubernetes): create it with 10.0.0.0/24,fd00::/112",
				"-> CreateServiceCIDR with 10.0.0.0/24,fd00::/112",
			},
		},
		"a default ServiceCIDR of another range": {
			change: func(w *Snapshot) { w.ServiceCIDRs[0].CIDRs = nets("10.9.0.0/24,fd00::/112") },
			want: []string{
				"DefaultServiceCIDRWrong (ServiceCIDR kubernetes): delete it and create it with 10.0.0.0/24,fd00::/112",
				"-> ReplaceServiceCIDR if cidr-kubernetes@9 with 10.0.0.0/24,fd00::/112",
			},
		},
		"a default ServiceCIDR of another range that is protected": {
			change: func(w *Snapshot) {
				w.ServiceCIDRs[0].CIDRs, w.ServiceCIDRs[0].Finalizers = nets("10.9.0.0/24"), []string{"example.com/mine"}
			},
			want: []string{"DefaultServiceCIDRWrong (ServiceCIDR kubernetes): left to those who set them: example.com/mine"},
		},
		"a default ServiceCIDR of another range, where it is not served": {
			change: func(w *Snapshot) { w.ServiceCIDRs[0].CIDRs, w.Served = nets("10.9.0.0/24"), false },
			want:   []string{"DefaultServiceCIDRWrong (ServiceCIDR kubernetes): delete its key in etcd"},
		},
		"a default ServiceCIDR with the families the other way around": {
			change: func(w *Snapshot) { w.ServiceCIDRs[0].CIDRs = nets("fd00::/112,10.0.0.0/24") },
			want: []string{
				"SecondaryRangeMislabelled (ServiceCIDR kubernetes): delete it and create it with 10.0.0.0/24,fd00::/112",
				"-> ReplaceServiceCIDR if cidr-kubernetes@9 with 10.0.0.0/24,fd00::/112",
			},
		},
		"a bit without Service": {
			change: func(w *Snapshot) {
				w.Bitmaps[0] = aBitmap(KeyPrimary, "10.0.0.0/24", "10.0.0.1", "10.0.0.2", "10.0.0.77")
			},
			want: []string{"LeakedBit 10.0.0.77: run --repair-bitmap"},
		},
		"a bit without Service, to be repaired": {
			change: func(w *Snapshot) {
				w.Bitmaps[0] = aBitmap(KeyPrimary, "10.0.0.0/24", "10.0.0.1", "10.0.0.2", "10.0.0.77")
			},
			repair: true,
			want:   []string{"LeakedBit 10.0.0.77: write the bitmap", "-> RepairBitmap ranges/serviceips"},
		},
		"a Service without bit": {
			change: func(w *Snapshot) {
				w.Bitmaps[1] = aBitmap(KeySecondary, "fd00::/112", "fd00::1")
				w.Services[1].Addresses = append(w.Services[1].Addresses, addr("fd00::2"))
				w.IPAddresses = append(w.IPAddresses, anIP("fd00::2", "b"))
			},
			want: []string{"MissingBit fd00::2 (Service ns/b): left as it is"},
		},
		"a bit without Service, with 1.33": {
			change: func(w *Snapshot) {
				w.Allocator = AllocatorBoth
				w.Bitmaps[0] = aBitmap(KeyPrimary, "10.0.0.0/24", "10.0.0.1", "10.0.0.2", "10.0.0.77")
			},
			want: []string{"LeakedBit 10.0.0.77: API servers that keep bitmap and IPAddresses refuse Services"},
		},
		"no secondary bitmap": {
			change: func(w *Snapshot) { w.Bitmaps = w.Bitmaps[:1] },
			want:   []string{"BitmapMissing (ranges/secondaryserviceips): `migrate rollback` builds it"},
		},
		"bitmaps that nobody looked for": {change: func(w *Snapshot) { w.Bitmaps, w.Revision = nil, 0 }},
		"a bitmap that was never used": {
			change: func(w *Snapshot) { w.Bitmaps[1] = broken(KeySecondary, bitmap.ErrUnset) },
			want:   []string{"BitmapEmpty (ranges/secondaryserviceips): left as it is"},
		},
		"a bitmap without bits, and no Service of its family": {change: func(w *Snapshot) {
			w.Bitmaps[1] = aBitmap(KeySecondary, "fd00::/112")
			w.Services[0].Addresses, w.IPAddresses = w.Services[0].Addresses[:1], w.IPAddresses[:2]
		}},
		"a bitmap of other bytes": {
			change: func(w *Snapshot) { w.Bitmaps[0] = broken(KeyPrimary, errors.New("the bytes are damaged")) },
			want:   []string{"BitmapUnreadable (ranges/serviceips) blocks: leave out --etcd-servers"},
		},
		"a bitmap under lock and key": {
			change: func(w *Snapshot) { w.Bitmaps[0] = broken(KeyPrimary, fmt.Errorf("%w (by aescbc)", ErrEncrypted)) },
			want:   []string{"BitmapEncrypted (ranges/serviceips) blocks: leave out --etcd-servers"},
		},
		"a bitmap of a range where no Service is": {
			change: func(w *Snapshot) { w.Bitmaps[1] = aBitmap(KeySecondary, "fd99::/112", "fd99::1") },
			want:   []string{"BitmapForeignRange (ranges/secondaryserviceips) blocks: find out which range"},
		},
		"two bitmaps of one family": {
			change: func(w *Snapshot) { w.Bitmaps[1] = aBitmap(KeySecondary, "10.0.1.0/24") },
			want: []string{
				"SecondaryRangeMislabelled (ranges/secondaryserviceips) blocks: find out which range",
				"SecondaryRangeMislabelled (ranges/serviceips) blocks: find out which range",
			},
		},
		"bitmaps after the flip": {
			change: func(w *Snapshot) { w.Allocator = AllocatorIPAddresses },
			want:   []string{"StaleBitmap (ranges/secondaryserviceips): `migrate finalize`", "StaleBitmap (ranges/serviceips): `migrate finalize`"},
		},
		"a slip of the admin's pen": {
			change: func(w *Snapshot) {
				w.Services = append(w.Services, aService("kubernetes", "10.0.0.3"))
				w.Services[3].Name.Namespace = "default"
				w.IPAddresses = append(w.IPAddresses, anIP("10.0.0.3", "kubernetes"))
				w.IPAddresses[3].Service.Namespace = "default"
				w.Given, w.Bitmaps, w.Revision = nets("10.0.0.0/24,fd00::/112"), nil, 0
			},
			want: []string{"RangeContradicted (Service default/kubernetes) blocks: give the range as kube-apiserver is started with it"},
		},
		"an object of other bytes": {
			change: func(w *Snapshot) {
				w.Unreadable = []Value{{Key: "services/specs/ns/x", Err: errors.New("the value is broken")}}
			},
			want: []string{"ObjectUnreadable (services/specs/ns/x) blocks: repair or delete the key"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPlan(healthy().but(tc.change), Options{RepairBitmap: tc.repair})
			var got []string
			for i, f := range p.Findings {
				seen[f.Kind] = true
				text := findingText(f)
				if f.Blocks {
					text += " blocks"
				}
				if i < len(tc.want) && strings.HasPrefix(tc.want[i], text+": ") && strings.Contains(f.Plan, tc.want[i][len(text)+2:]) {
					got = append(got, tc.want[i])
				} else {
					got = append(got, text+": "+f.Plan)
				}
			}
			mustEqual(t, "findings and steps", append(got, textsOf(p.Steps, func(s Step) string { return "-> " + stepText(s) })...), tc.want)
		})
	}
	for _, k := range kinds {
		if !seen[k.kind] {
			t.Errorf("no snapshot of this table has a finding of kind %s", k.kind)
		}
	}
}

// A snapshot gives the same plan each time, in whatever order it lists the objects.
func TestEverySnapshotGivesOnePlan(t *testing.T) {
	for seed := range uint64(400) {
		r := seeded(seed)
		s := randomCluster(r, 4)
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
