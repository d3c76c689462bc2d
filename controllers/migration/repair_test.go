package migration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
)

// unused is what an API server stores before it uses the bitmap.
var unused = &corev1.RangeAllocation{}

var (
	small = netip.MustParsePrefix("10.0.0.0/24")
)

// drifted is a cluster of one Service, on 10.0.0.1, whose bitmap says something else.
func drifted(used ...string) *memory {
	m := holding(Snapshot{Services: []Service{aService("a", "10.0.0.1")}, Bitmaps: []StoredBitmap{aBitmap(KeyPrimary, small.String(), used...)}})
	return m
}

// mender repairs bitmaps in a memory.
func mender(m *memory) Runner {
	return Runner{Sources: m.sources(), Options: Options{RepairBitmap: true}, Pace: batch.Pace{Progress: &silent{}}, LeakGrace: time.Minute}
}

// use does to the bitmap what an API server does: one write for each address.
func (m *memory) use(key string, do func(*bitmap.Bitmap)) {
	b := m.bitmap(key).Clone()
	do(b)
	m.putBitmap(key, b)
}

func (m *memory) take(a string) { m.use(KeyPrimary, func(b *bitmap.Bitmap) { _ = b.Add(addr(a)) }) }
func (m *memory) give(a string) { m.use(KeyPrimary, func(b *bitmap.Bitmap) { b.Remove(addr(a)) }) }

func usedIn(m *memory, key string) []string {
	return textsOf(slices.Collect(m.bitmap(key).All()), netip.Addr.String)
}

// TestRepairBitmap has another writer at work on the cluster during the grace of a minute.
func TestRepairBitmap(t *testing.T) {
	for name, tc := range map[string]struct {
		used []string
		// then is what happens, at second 10 after the repair has begun.
		then func(*memory)
		want []string
		// wantWithin: it has ended after so long.
		wantWithin time.Duration
		wantWrites int
	}{
		"a bit leaks":       {used: []string{"10.0.0.1", "10.0.0.9"}, want: []string{"10.0.0.1"}, wantWithin: time.Minute, wantWrites: 1},
		"its Service comes": {used: []string{"10.0.0.1", "10.0.0.9"}, then: func(m *memory) { m.putService(aService("b", "10.0.0.9")) }, want: []string{"10.0.0.1", "10.0.0.9"}, wantWithin: time.Minute},
		"it is cleared":     {used: []string{"10.0.0.1", "10.0.0.9"}, then: func(m *memory) { m.give("10.0.0.9") }, want: []string{"10.0.0.1"}, wantWithin: 11 * time.Second},
		"it is cleared and set for a Service that is on its way": {
			used: []string{"10.0.0.1", "10.0.0.8", "10.0.0.9"}, then: func(m *memory) { m.give("10.0.0.9"); m.take("10.0.0.9") },
			want: []string{"10.0.0.1", "10.0.0.9"}, wantWithin: time.Minute, wantWrites: 1,
		},
		"another is set for a Service that is on its way": {
			used: []string{"10.0.0.1", "10.0.0.9"}, then: func(m *memory) { m.take("10.0.0.7") },
			want: []string{"10.0.0.1", "10.0.0.7"}, wantWithin: time.Minute, wantWrites: 1,
		},
		"all of the bitmap goes": {
			used: []string{"10.0.0.1", "10.0.0.9"}, then: func(m *memory) { m.give("10.0.0.1"); m.give("10.0.0.9") }, want: nil, wantWithin: 15 * time.Second, // the next look finds the missing one
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, begin := drifted(tc.used...), time.Now()
				if tc.then != nil {
					time.AfterFunc(10*time.Second, func() { tc.then(m) })
				}
				if err := mender(m).repairBitmap(t.Context(), Step{Key: KeyPrimary}); err != nil && !errors.Is(err, batch.ErrMoved) {
					t.Fatal(err)
				}
				mustEqual(t, "bits", usedIn(m, KeyPrimary), tc.want)
				if spent := time.Since(begin); spent > tc.wantWithin+5*time.Second {
					t.Errorf("it took %v, want %v", spent, tc.wantWithin)
				}
				if got := m.commits(); got != tc.wantWrites {
					t.Errorf("%d transactions, want %d", got, tc.wantWrites)
				}
			})
		})
	}
}

// Another writer changes the bitmap each time that we want to.
func TestRepairBitmapUnderFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, others := drifted("10.0.0.9"), 0
		m.before = func(c call) error {
			if c.op == "Commit" && others < 20 {
				others++
				m.take(fmt.Sprintf("10.0.0.%d", 100+others))
			}
			return nil
		}
		if err := mender(m).repairBitmap(t.Context(), Step{Key: KeyPrimary}); err != nil {
			t.Fatal(err)
		}
		got := usedIn(m, KeyPrimary)
		if len(got) != 21 || got[0] != "10.0.0.1" || slices.Contains(got, "10.0.0.9") {
			t.Errorf("bits %v", got)
		}
	})
}

func TestRepairBitmapGivesUp(t *testing.T) {
	away := errors.New("away")
	for name, tc := range map[string]struct {
		then func(*memory) // at second 10
		want string        // a piece of the error
	}{
		"the bitmap is broken":    {then: func(m *memory) { m.put(Write{Key: KeyPrimary, Raw: []byte("?")}) }, want: "is broken"},
		"the bitmap is encrypted": {then: func(m *memory) { m.put(Write{Key: KeyPrimary, Raw: []byte("k8s:enc:x")}) }, want: "encrypted"},
		"the bitmap is deleted":   {then: func(m *memory) { m.remove(KeyPrimary) }, want: "following the bitmap"},
		"the store is away":       {then: func(m *memory) { m.interfere(func(call) error { return away }) }, want: "away"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := drifted("10.0.0.1", "10.0.0.9")
				time.AfterFunc(10*time.Second, func() { tc.then(m) })
				mustSay(t, mender(m).repairBitmap(t.Context(), Step{Key: KeyPrimary}), tc.want)
				if m.commits() > 0 {
					t.Error("it has written")
				}
			})
		})
	}
	t.Run("the store forgets", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := drifted("10.0.0.1", "10.0.0.9")
			m.before = func(c call) error {
				if c.op == "Watch" {
					m.take("10.0.0.5")
					m.compact()
				}
				return nil
			}
			if err := mender(m).repairBitmap(t.Context(), Step{Key: KeyPrimary}); !errors.Is(err, ErrCompacted) || m.commits() > 0 {
				t.Errorf("error %v", err)
			}
		})
	})
	t.Run("it is told to end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := drifted("10.0.0.1", "10.0.0.9")
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			if err := mender(m).repairBitmap(ctx, Step{Key: KeyPrimary}); !errors.Is(err, context.DeadlineExceeded) || m.commits() > 0 {
				t.Errorf("error %v", err)
			}
		})
	})
}

// A bitmap that was never used is written whole, for a range told elsewhere; so is the second.
func TestRepairBitmapThatWasNeverUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := holding(healthy())
		for _, key := range []string{KeyPrimary, KeySecondary} {
			m.put(Write{Key: key, Object: unused.DeepCopy()})
			if err := mender(m).repairBitmap(t.Context(), Step{Key: key}); err != nil {
				t.Fatal(err)
			}
		}
		mustEqual(t, "primary", usedIn(m, KeyPrimary), []string{"10.0.0.1", "10.0.0.2"})
		mustEqual(t, "secondary", usedIn(m, KeySecondary), []string{"fd00::1"})
	})
}

// TestRepairBitmapBesideAnAPIServer has an API server create and delete Services, some slowly: the
// bit comes first, the Service up to 50 s later. No bit goes that a Service needs.
func TestRepairBitmapBesideAnAPIServer(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			r := seeded(seed)
			m := drifted("10.0.0.1", "10.0.0.200", "10.0.0.201")
			m.putService(aService("bitless", "10.0.0.202"))
			s := &slowServer{m: m, r: r, needs: map[string]bool{"10.0.0.1": true}}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); s.run(ctx) }()
			time.Sleep(5 * time.Second)
			err := mender(m).repairBitmap(ctx, Step{Key: KeyPrimary})
			s.mu.Lock()
			bits := m.bitmap(KeyPrimary)
			for a := range s.needs {
				if !bits.Contains(addr(a)) {
					t.Errorf("seed %d: the bit of %s is gone, which is in use", seed, a)
				}
			}
			s.mu.Unlock()
			if err != nil || bits.Contains(addr("10.0.0.200")) || bits.Contains(addr("10.0.0.201")) || !bits.Contains(addr("10.0.0.202")) {
				t.Errorf("seed %d: bits %v, %v", seed, usedIn(m, KeyPrimary), err)
			}
			stop()
			<-done
		})
	}
}

// slowServer creates and deletes Services as an API server on the bitmap does, several at a time.
type slowServer struct {
	m *memory
	r *rand.Rand

	mu    sync.Mutex
	needs map[string]bool // addresses that were given out, and so need their bit
}

func (s *slowServer) run(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(s.r.IntN(3000)) * time.Millisecond)
		s.once(ctx, fmt.Sprintf("10.0.0.%d", 2+s.r.IntN(6)))
	}
}

func (s *slowServer) once(ctx context.Context, a string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.needs[a]:
		s.needs[a] = true
		s.m.take(a)
		time.AfterFunc(time.Duration(s.r.IntN(50))*time.Second, func() {
			if ctx.Err() == nil {
				s.m.putService(aService(strings.ReplaceAll(a, ".", "-"), a))
			}
		})
	case s.exists(a) && s.r.IntN(2) == 0: // the Service goes first, then its bit
		s.m.remove("services/specs/ns/" + strings.ReplaceAll(a, ".", "-"))
		delete(s.needs, a)
		s.m.give(a)
	}
}

func (s *slowServer) exists(a string) bool {
	return s.m.now("services/specs/ns/" + strings.ReplaceAll(a, ".", "-")).Exists()
}
