package migration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
)

// following is a Keeper that reads from a memory and writes into it.
type following struct {
	m    *memory
	k    *Keeper
	told int
	stop func()
	err  error
}

func follow(t *testing.T, m *memory) *following {
	t.Helper()
	f := &following{m: m, k: NewKeeper(m.sources(), NewPlan(m.snapshot(t), Options{}), true, rate.Inf, 8)}
	ctx, stop := context.WithCancel(t.Context())
	told, read, worked := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		f.err = f.k.FollowStore(ctx, m, func() {
			if f.told++; f.told == 1 {
				close(told)
			}
		})
	}()
	go func() {
		defer close(worked)
		select {
		case <-told:
			f.k.Run(ctx, func(int) {})
		case <-read:
		}
	}()
	f.stop = func() { stop(); <-read; <-worked }
	t.Cleanup(f.stop)
	return f
}

// mustAgree: what the cluster has needs no step.
func (f *following) mustAgree(t *testing.T, when string) {
	t.Helper()
	if p := NewPlan(f.m.snapshot(t), Options{}); len(p.Steps) > 0 {
		t.Errorf("%s it still wants\n  %s", when, strings.Join(textsOf(p.Steps, stepText), "\n  "))
	}
}

// TestFollowStore has Services come, go and change hands at random, the store forget its history, and in the end IPAddresses agree.
func TestFollowStore(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			r, m := seeded(seed), bare(5)
			f := follow(t, m)
			for range 60 {
				time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
				name := fmt.Sprintf("n%d", r.IntN(6))
				switch r.IntN(8) {
				case 0, 1, 2:
					m.putService(aged(aService(name, fmt.Sprintf("10.0.0.%d", 1+r.IntN(9))), -time.Duration(r.IntN(5))*time.Second))
				case 3, 4:
					m.remove("services/specs/ns/" + name)
				case 5:
					m.remove(fmt.Sprintf("ipaddresses/10.0.0.%d", 1+r.IntN(9)))
				case 6:
					a := fmt.Sprintf("10.0.0.%d", 1+r.IntN(9))
					m.put(Write{Key: "ipaddresses/" + a, Object: objectOf(anIP(a, name))})
				default:
					m.compact()
				}
			}
			time.Sleep(10 * time.Second)
			f.mustAgree(t, fmt.Sprintf("seed %d: in the end", seed))
			f.stop()
			if !errors.Is(f.err, context.Canceled) {
				t.Errorf("seed %d: it ended with %v", seed, f.err)
			}
		})
	}
}

// The gap lies between the listing and the watch: what went in it is dropped by the second listing.
func TestFollowStoreMissesChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := bare(3)
		var watches atomic.Int32 // the two kinds are watched side by side
		m.before = func(c call) error {
			if c.op == "Watch" && watches.Add(1) == 1 {
				m.remove("services/specs/ns/s0001")
				m.putService(aService("new", "10.0.0.77"))
				m.compact()
			}
			return nil
		}
		f := follow(t, m)
		time.Sleep(5 * time.Second)
		f.mustAgree(t, "after the gap")
		if f.told < 2 || m.now("ipaddresses/10.0.0.2").Exists() || !m.now("ipaddresses/10.0.0.77").Exists() {
			t.Errorf("told %d times; there is\n%s", f.told, m)
		}
		if known := len(f.k.known()); known != 4+5 { // Services and IPAddresses
			t.Errorf("it knows %d keys: %v", known, f.k.known())
		}
	})
}

// What cannot be decoded is left out; everything else goes on.
func TestFollowStoreSkipsWhatIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := bare(1)
		f := follow(t, m)
		time.Sleep(2 * time.Second)
		m.put(Write{Key: "services/specs/ns/x", Raw: []byte("?")})
		m.put(Write{Key: "services/endpoints/ns/x", Object: &corev1.Namespace{}})
		m.put(Write{Key: "pods/ns/x", Raw: []byte("?")})
		m.putService(aService("new", "10.0.0.77"))
		time.Sleep(2 * time.Second)
		if !m.now("ipaddresses/10.0.0.77").Exists() {
			t.Errorf("there is\n%s", m)
		}
		f.stop()
	})
}

func TestFollowStoreFails(t *testing.T) {
	away := errors.New("away")
	for _, op := range []string{"List", "Watch"} {
		synctest.Test(t, func(t *testing.T) {
			m := bare(1)
			f := &following{m: m, k: NewKeeper(m.sources(), NewPlan(m.snapshot(t), Options{}), true, rate.Inf, 8)}
			m.before = func(c call) error {
				if c.op == op {
					return away
				}
				return nil
			}
			if err := f.k.FollowStore(t.Context(), m, func() {}); !errors.Is(err, away) {
				t.Errorf("%s fails, and it says %v", op, err)
			}
			f.k.queue.ShutDown()
		})
	}
}
