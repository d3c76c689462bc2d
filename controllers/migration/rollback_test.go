package migration

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
)

// bytesFor builds a bitmap as 1.32 does, by hand: bit i of a big number is the address base+1+i.
func bytesFor(p netip.Prefix, w Snapshot) []byte {
	number := func(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }
	bits := new(big.Int)
	for _, s := range w.Services {
		for _, a := range s.Addresses {
			if p.Contains(a) {
				i := new(big.Int).Sub(number(a), number(p.Addr()))
				bits.SetBit(bits, int(i.Int64())-1, 1)
			}
		}
	}
	return bits.Bytes()
}

// wantRefused counts what a bitmap cannot express, by kinds.
func wantRefused(s *troubledCluster, ranges []netip.Prefix) map[Kind]int {
	out := map[Kind]int{}
	holders := map[netip.Addr]int{}
	for _, x := range s.Services {
		out[InvalidClusterIP] += len(x.Invalid)
		for _, a := range x.Addresses {
			holders[a]++
		}
	}
	for a, n := range holders {
		if n > 1 {
			out[DuplicateClusterIP]++
		}
		if !slices.ContainsFunc(ranges, func(p netip.Prefix) bool {
			last := a.Is4() && !p.Contains(a.Next())
			return p.Contains(a) && a != p.Addr() && !last
		}) {
			out[OutOfRange]++
		}
	}
	out[ObjectUnreadable] = len(s.Unreadable)
	for _, b := range s.Bitmaps {
		if errors.Is(b.Err, ErrEncrypted) {
			out[BitmapEncrypted]++
		}
	}
	return out
}

// In random worlds the bits are those of the Services, NewRollback refuses only what a bitmap
// cannot express, and once it was carried out there is nothing to do.
func TestRollbackOfRandomSnapshots(t *testing.T) {
	built, refused := 0, 0
	for seed := range uint64(2000) {
		r := seeded(seed)
		s := randomCluster(r, 4)
		if r.IntN(3) == 0 {
			s.Allocator = oneOf(r, AllocatorBoth, AllocatorIPAddresses, AllocatorUnknown)
		}
		if r.IntN(3) == 0 {
			s.Given = s.flag
		}
		back, err := NewRollback(s.Snapshot)
		if err != nil {
			if s.Given != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, s)
			}
			continue
		}
		p := NewPlan(s.Snapshot, Options{})
		ranges := p.Ranges
		if s.Allocator == AllocatorIPAddresses {
			w := s.Snapshot
			w.Allocator = AllocatorBitmap
			p = NewPlan(w, Options{})
			ranges = p.Ranges
		}
		got := map[Kind]int{}
		for _, f := range back.Refused {
			got[f.Kind]++
		}
		for k, want := range wantRefused(s, ranges) {
			if got[k] != want {
				t.Fatalf("seed %d: it refuses %d times for %s, want %d\n%s", seed, got[k], k, want, s)
			}
		}
		if len(back.Refused) > 0 {
			refused++
			continue
		}
		built++
		after := s.Snapshot
		after.Bitmaps = slices.Clone(after.Bitmaps)
		for _, b := range back.Bitmaps {
			if want := bytesFor(b.Bitmap.Prefix(), s.Snapshot); string(b.Bitmap.Data()) != string(want) {
				t.Fatalf("seed %d: %s is %x, want %x\n%s", seed, b.Key, b.Bitmap.Data(), want, s)
			}
			after.Bitmaps = slices.DeleteFunc(after.Bitmaps, func(old StoredBitmap) bool { return old.Key == b.Key })
			after.Bitmaps = append(after.Bitmaps, StoredBitmap{Key: b.Key, Range: b.Bitmap.String(), Bitmap: b.Bitmap})
		}
		slices.SortFunc(after.Bitmaps, func(a, b StoredBitmap) int { return strings.Compare(b.Key, a.Key) })
		again, err := NewRollback(after)
		if err != nil || !again.Nothing() {
			t.Fatalf("seed %d: when it is done it finds %v, %v\n%s", seed, textsOf(again.Bitmaps, rebuiltText), err, s)
		}
		for i, p := range ranges {
			at := slices.IndexFunc(after.Bitmaps, func(b StoredBitmap) bool { return b.Key == bitmapKeys[i] })
			if at < 0 || string(after.Bitmaps[at].Bitmap.Data()) != string(bytesFor(p, s.Snapshot)) || after.Bitmaps[at].Range != p.String() {
				t.Fatalf("seed %d: when it is done the bitmap of %s is not what the Services want\n%s", seed, p, s)
			}
		}
	}
	if built < 400 || refused < 400 {
		t.Errorf("%d snapshots are built, %d refused: the clusters prove nothing", built, refused)
	}
}

func rebuiltText(b RebuiltBitmap) string {
	return fmt.Sprintf("%s %s %v guard %d, %d set, %d cleared, broken: %v", b.Key, b.Bitmap, slices.Collect(b.Bitmap.All()), b.Guard, b.Set, b.Cleared, b.Broken)
}

func TestRollback(t *testing.T) {
	for name, tc := range map[string]struct {
		change                                 func(*Snapshot)
		wantBitmaps, wantRefused, wantReserved []string
		wantError                              string
	}{
		"bits that have to change": {
			change: func(w *Snapshot) {
				w.Bitmaps[0] = aBitmap(KeyPrimary, "10.0.0.0/24", "10.0.0.2", "10.0.0.7", "10.0.0.8")
			},
			wantBitmaps: []string{"ranges/serviceips 10.0.0.0/24 [10.0.0.1 10.0.0.2] guard 5, 1 set, 2 cleared, broken: <nil>"},
		},
		"after finalize": {
			change: func(w *Snapshot) { w.Bitmaps, w.Allocator = nil, AllocatorIPAddresses },
			wantBitmaps: []string{
				"ranges/serviceips 10.0.0.0/24 [10.0.0.1 10.0.0.2] guard 0, 2 set, 0 cleared, broken: <nil>",
				"ranges/secondaryserviceips fd00::/112 [fd00::1] guard 0, 1 set, 0 cleared, broken: <nil>",
			},
		},
		"one of another range, and the admin knows": {
			change:      func(w *Snapshot) { w.Given = nets("10.0.0.0/25,fd00::/112") },
			wantBitmaps: []string{"ranges/serviceips 10.0.0.0/25 [10.0.0.1 10.0.0.2] guard 5, 2 set, 0 cleared, broken: <nil>"},
		},
		"the other way around": {
			change: func(w *Snapshot) { w.Given = nets("fd00::/112,10.0.0.0/24") },
			wantBitmaps: []string{
				"ranges/serviceips fd00::/112 [fd00::1] guard 5, 1 set, 0 cleared, broken: <nil>",
				"ranges/secondaryserviceips 10.0.0.0/24 [10.0.0.1 10.0.0.2] guard 5, 2 set, 0 cleared, broken: <nil>",
			},
		},
		"two Services on one address": {
			change:      func(w *Snapshot) { w.Services = append(w.Services, aged(aService("late", "10.0.0.2"), 0)) },
			wantRefused: []string{"DuplicateClusterIP 10.0.0.2 (Service ns/b, Service ns/late, IPAddress 10.0.0.2)"},
		},
		"outside of the bitmap": {
			change: func(w *Snapshot) {
				w.Services, w.ServiceCIDRs = append(w.Services, aService("far", "192.0.2.1")), append(w.ServiceCIDRs, aCIDR("more", "192.0.2.0/24"))
			},
			wantRefused: []string{"OutOfRange 192.0.2.1 (Service ns/far)"},
		},
		"behind the end of an IPv6 bitmap": {
			change: func(w *Snapshot) {
				w.Given, w.Services = nets("10.0.0.0/24,fd00::/108"), append(w.Services, aService("far", "fd00::1:0"))
			},
			wantBitmaps: []string{"ranges/secondaryserviceips fd00::/108 [fd00::1] guard 5, 1 set, 0 cleared, broken: <nil>"},
			wantRefused: []string{"OutOfRange fd00::1:0 (Service ns/far)"},
		},
		"a range that has no bitmap": {change: func(w *Snapshot) { w.Given = nets("10.0.0.0/24,fd00::/64") }, wantError: "range fd00::/64 has no bitmap"},
		"nothing tells":              {change: func(w *Snapshot) { w.Bitmaps, w.ServiceCIDRs = nil, nil }, wantError: "give --service-cluster-ip-range"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := NewRollback(healthy().but(tc.change))
			mustSay(t, err, tc.wantError)
			mustEqual(t, "bitmaps", textsOf(r.Bitmaps, rebuiltText), tc.wantBitmaps)
			mustEqual(t, "refused", textsOf(r.Refused, findingText), tc.wantRefused)
			mustEqual(t, "reserved", textsOf(r.Reserved, netip.Addr.String), tc.wantReserved)
			if r.Nothing() != (len(tc.wantBitmaps) == 0) {
				t.Errorf("nothing to do: %v", r.Nothing())
			}
		})
	}
	if (Rollback{Rewrites: 1}).Nothing() {
		t.Error("an object that 1.32 cannot read is nothing")
	}
}

// flippedCluster allocated from IPAddresses for a while: its bitmaps are old, its objects new.
func flippedCluster() *memory {
	m := holding(healthy())
	for i := range 130 {
		s := aService(fmt.Sprintf("new%03d", i), fmt.Sprintf("10.0.0.%d", i+20))
		m.putService(s)
		m.put(Write{Key: prefixIPAddresses + s.Addresses[0].String(), Object: objectOf(anIP(s.Addresses[0].String(), s.Name.Name))})
	}
	m.put(Write{Key: prefixIPAddresses + "10.0.0.2", Object: objectOf(anIP("10.0.0.2", "b")), APIVersion: oldVersion})
	return m
}

// rollBack does what the command does.
func rollBack(ctx context.Context, m *memory, dir string) error {
	w, err := m.sources().Snapshot(ctx)
	if err != nil {
		return err
	}
	r := must(NewRollback(w))
	if r.Rewrites, err = CountRewrites(ctx, m); err != nil || r.Nothing() {
		return err
	}
	if err := r.Save(ctx, m, archiveIn(dir)); err != nil {
		return err
	}
	return RollBack(ctx, m, r, &silent{})
}

func TestRollBackIsInterrupted(t *testing.T) {
	original := flippedCluster()
	mustSurvive(t, flippedCluster, func(m *memory, dir string) error { return rollBack(t.Context(), m, dir) }, func(t *testing.T, m *memory, dir string) {
		if n, err := CountRewrites(t.Context(), m); n != 0 || err != nil {
			t.Errorf("%d objects cannot be read by 1.32, %v", n, err)
		}
		w := m.snapshot(t)
		for _, b := range w.Bitmaps {
			if want := bytesFor(b.Bitmap.Prefix(), w); string(b.Bitmap.Data()) != string(want) {
				t.Errorf("%s is %x, want %x", b.Key, b.Bitmap.Data(), want)
			}
		}
		if k := must(LoadArchive(archiveIn(dir))).Keys; len(k) != 1 || string(k[0].Value) != string(original.now(KeyPrimary).Raw) {
			t.Errorf("saved are %v", k)
		}
		for key, v := range original.state(original.revision) {
			if got := m.now(key); contents(got) != contents(decoded(v)) && !strings.HasPrefix(key, "ranges/") {
				t.Errorf("%s was %s and is %s", key, contents(decoded(v)), contents(got))
			}
		}
	})
}

// What another writer changes in the middle stays as it was written; the rest is rewritten.
func TestRewritingBesideSomebody(t *testing.T) {
	m := flippedCluster()
	r := must(NewRollback(m.snapshot(t)))
	m.once("Commit", prefixIPAddresses, func() {
		m.put(Write{Key: prefixIPAddresses + "10.0.0.30", Object: objectOf(anIP("10.0.0.30", "another"))})
		m.remove(prefixIPAddresses + "10.0.0.31")
	})
	if err := RollBack(t.Context(), m, r, &silent{}); err != nil {
		t.Fatal(err)
	}
	if v := m.now(prefixIPAddresses + "10.0.0.30"); v.APIVersion != "networking.k8s.io/v1" || !strings.Contains(contents(v), "another") {
		t.Errorf("what was changed is %s, %s", v.APIVersion, contents(v))
	}
	if m.now(prefixIPAddresses + "10.0.0.31").Exists() {
		t.Error("what was deleted is there again")
	}
	if n := must(CountRewrites(t.Context(), m)); n != 1 {
		t.Errorf("%d objects are left, want the one that was changed", n)
	}
}

// The bitmaps are written in one transaction, or not at all.
func TestRollBackIsGuarded(t *testing.T) {
	for _, op := range []string{"Get", "Commit"} {
		t.Run("before the "+op, func(t *testing.T) {
			m := holding(healthy())
			m.remove(KeyPrimary)
			m.putService(aService("c", "fd00::3"))
			r := must(NewRollback(m.snapshot(t)))
			if len(r.Bitmaps) != 2 {
				t.Fatalf("%d bitmaps", len(r.Bitmaps))
			}
			m.once(op, "ranges/", func() { m.putBitmap(KeySecondary, must(bitmap.New(nets("fd00::/112")[0]))) })
			if err := RollBack(t.Context(), m, r, &silent{}); !errors.Is(err, ErrConflict) {
				t.Errorf("error %v", err)
			}
			if m.now(KeyPrimary).Exists() || m.bitmap(KeySecondary).Len() != 0 {
				t.Errorf("it has written\n%s", m)
			}
		})
	}
}

// Saving writes nothing into the store, can be repeated, and refuses what has changed.
func TestSave(t *testing.T) {
	m := holding(healthy())
	m.putService(aService("c", "10.0.0.3"))
	r, file := must(NewRollback(m.snapshot(t))), archiveIn(t.TempDir())
	for range 2 {
		if err := r.Save(t.Context(), m, file); err != nil {
			t.Fatal(err)
		}
	}
	if k := must(LoadArchive(file)).Keys; len(k) != 1 || k[0].Key != KeyPrimary || m.commits() != 0 {
		t.Errorf("saved %v, %d commits", k, m.commits())
	}
	m.putBitmap(KeyPrimary, must(bitmap.New(nets("10.0.0.0/24")[0])))
	if err := r.Save(t.Context(), m, file); !errors.Is(err, ErrConflict) {
		t.Errorf("the bitmap has changed, and it says %v", err)
	}
}

// After a rollback nothing says that an API server allocates from IPAddresses.
func TestRollBackDisowns(t *testing.T) {
	m := holding(healthy())
	c := healthy().ServiceCIDRs[0]
	c.ByAPIServer = true
	m.put(Write{Key: prefixServiceCIDRs + c.Name, Object: cidrObject(c), APIVersion: oldVersion})
	m.put(Write{Key: prefixIPAddresses + "10.0.0.1", Object: objectOf(byAPIServer(anIP("10.0.0.1", "a"))), APIVersion: oldVersion})
	for _, a := range []string{"10.0.0.2", "fd00::1"} {
		v := m.now(prefixIPAddresses + a)
		m.put(Write{Key: v.Key, Object: v.Object, APIVersion: oldVersion})
	}
	if w := m.snapshot(t); w.Allocator != AllocatorIPAddresses {
		t.Fatalf("it allocates from %s", w.Allocator)
	}
	if n := must(CountRewrites(t.Context(), m)); n != 2 {
		t.Errorf("%d objects to rewrite, want those of the API server", n)
	}
	if err := rollBack(t.Context(), m, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if w := m.snapshot(t); w.Allocator != AllocatorBitmap {
		t.Errorf("afterwards it allocates from %s", w.Allocator)
	}
	if n := must(CountRewrites(t.Context(), m)); n != 0 {
		t.Errorf("%d objects are left", n)
	}
}
