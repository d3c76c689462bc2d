package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/relation"
)

// recorder is a writer that writes down when it was asked for what, and answers as it is told.
type recorder struct {
	begin time.Time

	mu  sync.Mutex
	log []string
	// answer is asked each time; nil means that all is well.
	answer func(n int, s Step) error
}

func (r *recorder) answers(f func(n int, s Step) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func (r *recorder) apply(_ context.Context, s Step) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf("%v %s", time.Since(r.begin), stepText(s)))
	if r.answer == nil {
		return nil
	}
	return r.answer(len(r.log), s)
}

func (r *recorder) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log)
}

// syncing is a Syncer that runs within a bubble, and records what it writes.
type syncing struct {
	*Syncer
	*recorder
	inStep chan int
	stop   func()
}

// startSyncer starts a Syncer of a cluster on the bitmap of 10.0.0.0/24 that knows these objects.
func startSyncer(t *testing.T, known ...any) *syncing {
	t.Helper()
	p := NewPlan(Snapshot{Allocator: AllocatorBitmap, Given: nets("10.0.0.0/24")}, Options{})
	k := &syncing{Syncer: NewSyncer(Sources{Clock: clock.RealClock{}}, p, false, batch.Pace{Workers: 8}), recorder: &recorder{begin: time.Now()}, inStep: make(chan int, 2)}
	k.write = k.apply
	k.tell(known...)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); k.Run(ctx, func(n int) { k.inStep <- n }) }()
	k.stop = func() { stop(); <-ended }
	t.Cleanup(k.stop)
	return k
}

// tell shows objects as they are now.
func (k *syncing) tell(all ...any) {
	for _, o := range all {
		switch o := o.(type) {
		case Service:
			k.put(serviceObject(o))
		case relation.IPAddress:
			object := objectOf(o)
			object.ResourceVersion = o.ResourceVersion
			k.put(object)
		}
	}
}

// after lets time pass.
func (k *syncing) after(d time.Duration) { time.Sleep(d); synctest.Wait() }

func TestSyncer(t *testing.T) {
	a, forA := aService("a", "10.0.0.5"), anIP("10.0.0.5", "a")
	ms := time.Millisecond

	for name, tc := range map[string]struct {
		known []any
		// then is what happens, and when.
		then map[time.Duration]func(*syncing)
		want []string
	}{
		"a Service is created": {
			then: map[time.Duration]func(*syncing){time.Second: func(k *syncing) { k.tell(a) }},
			want: []string{"1s CreateIPAddress 10.0.0.5 for ns/a"},
		},
		"a Service is deleted": {
			known: []any{a, forA}, then: map[time.Duration]func(*syncing){time.Second: func(k *syncing) { k.drop(a.Name.String()) }},
			want: []string{"1.5s DeleteIPAddress 10.0.0.5 if ip-10.0.0.5@7"},
		},
		"a Service is deleted, comes back within the grace, and is deleted again": {
			known: []any{a, forA}, then: map[time.Duration]func(*syncing){
				time.Second: func(k *syncing) { k.drop(a.Name.String()) }, 1300 * ms: func(k *syncing) { k.tell(a) }, 1400 * ms: func(k *syncing) { k.drop(a.Name.String()) },
			},
			want: []string{"1.9s DeleteIPAddress 10.0.0.5 if ip-10.0.0.5@7"},
		},
		"the address passes on to another Service": {
			known: []any{a, forA}, then: map[time.Duration]func(*syncing){
				time.Second: func(k *syncing) { k.drop(a.Name.String()) }, 1200 * ms: func(k *syncing) { k.tell(aService("c", "10.0.0.5")) },
			},
			want: []string{"1.5s ReplaceIPAddress 10.0.0.5 for ns/c if ip-10.0.0.5@7"},
		},
		"a Service takes another address": {
			known: []any{a, forA}, then: map[time.Duration]func(*syncing){time.Second: func(k *syncing) { k.tell(aService("a", "10.0.0.7")) }},
			want: []string{"1s CreateIPAddress 10.0.0.7 for ns/a", "1.5s DeleteIPAddress 10.0.0.5 if ip-10.0.0.5@7"},
		},
		"the IPAddress is deleted": {
			known: []any{a, forA}, then: map[time.Duration]func(*syncing){time.Second: func(k *syncing) { k.drop("10.0.0.5") }},
			want: []string{"1s CreateIPAddress 10.0.0.5 for ns/a"},
		},
		"the state that was seen last is the guard": {
			known: []any{forA}, then: map[time.Duration]func(*syncing){300 * ms: func(k *syncing) {
				forA := forA
				forA.ResourceVersion = "8"
				k.tell(forA)
			}},
			want: []string{"500ms DeleteIPAddress 10.0.0.5 if ip-10.0.0.5@8"},
		},
		"nothing can be done outside of the range": {known: []any{aService("far", "192.0.2.1")}},
		"an API server that flips in the middle has its grace": {
			known: []any{byAPIServer(made(anIP("10.0.0.5", "soon"), time.Until(noon)))},
			then:  map[time.Duration]func(*syncing){30 * time.Second: func(k *syncing) { k.tell(aService("soon", "10.0.0.5")) }},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				known := slices.Clone(tc.known)
				for i, o := range known {
					if ip, ok := o.(relation.IPAddress); ok && ip.ByAPIServer {
						ip.Created = time.Now()
						known[i] = ip
					}
				}
				k := startSyncer(t, known...)
				for at, do := range tc.then {
					time.AfterFunc(at, func() { do(k) })
				}
				k.after(3 * time.Second)
				mustEqual(t, "done", distinctLines(k.lines()), tc.want)
			})
		})
	}
}

// distinctLines drops what was asked for again: the test does not tell the syncer that it was done.
func distinctLines(lines []string) (out []string) {
	seen := map[string]bool{}
	for _, line := range lines {
		_, what, _ := strings.Cut(line, " ")
		if !seen[what] {
			out = append(out, line)
		}
		seen[what] = true
	}
	return out
}

// The cluster changed before a write: it is looked at again soon, then less and less often.
func TestSyncerIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := startSyncer(t)
		k.answers(func(n int, _ Step) error {
			if n <= 3 {
				return fmt.Errorf("creating: %w", batch.ErrMoved)
			}
			return nil
		})
		k.tell(aService("a", "10.0.0.5"))
		k.after(2 * time.Second)
		mustEqual(t, "tries", k.lines(), []string{
			"0s CreateIPAddress 10.0.0.5 for ns/a", "100ms CreateIPAddress 10.0.0.5 for ns/a",
			"300ms CreateIPAddress 10.0.0.5 for ns/a", "700ms CreateIPAddress 10.0.0.5 for ns/a",
		})
	})
}

// A write that fails is tried again, less and less often, and one address does not hold up another.
func TestSyncerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := startSyncer(t)
		k.answers(func(_ int, s Step) error {
			if s.Address == addr("10.0.0.5") {
				return errors.New("away")
			}
			return nil
		})
		k.tell(aService("a", "10.0.0.5"), aService("b", "10.0.0.6"))
		k.after(time.Minute)
		var tries int
		for _, line := range k.lines() {
			if strings.Contains(line, "10.0.0.5") {
				tries++
			}
		}
		if tries < 12 || tries > 25 {
			t.Errorf("within a minute it tries %d times", tries)
		}
		if !slices.Contains(k.lines(), "0s CreateIPAddress 10.0.0.6 for ns/b") {
			t.Errorf("the other address had to wait: %v", k.lines())
		}
	})
}

// It says once that all is in step, when all is, and with how many addresses.
func TestSyncerIsInStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := startSyncer(t, aService("a", "10.0.0.5"), aService("b", "10.0.0.6"), anIP("10.0.0.6", "b"), labelled(anIP("10.0.0.9", ""), "example.com", ""))
		k.answers(func(_ int, s Step) error { return errors.New("away") })
		k.after(3 * time.Second)
		select {
		case n := <-k.inStep:
			t.Fatalf("in step with %d, and one is missing", n)
		default:
		}
		k.tell(anIP("10.0.0.5", "a"))
		k.after(time.Second)
		select {
		case n := <-k.inStep:
			if n != 2 {
				t.Errorf("in step with %d addresses, Services hold 2", n)
			}
		default:
			t.Error("nobody was told")
		}
		k.drop("10.0.0.5")
		k.tell(anIP("10.0.0.5", "a"))
		k.after(3 * time.Second)
		if len(k.inStep) > 0 {
			t.Error("it says so twice")
		}
	})
}

// After something was destroyed, its successor has its own grace, even if both events coincide.
func TestSyncerGivesEachObjectItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := startSyncer(t, anIP("10.0.0.5", "gone"))
		another := anIP("10.0.0.5", "soon")
		another.UID = "another"
		k.answers(func(n int, _ Step) error {
			if n == 1 {
				k.drop("10.0.0.5")
				k.tell(another)
			}
			return nil
		})
		k.after(900 * time.Millisecond)
		mustEqual(t, "within the grace of the second", k.lines(), []string{"500ms DeleteIPAddress 10.0.0.5 if ip-10.0.0.5@7"})
		k.after(200 * time.Millisecond)
		if got := k.lines(); len(got) < 2 || got[1] != "1s DeleteIPAddress 10.0.0.5 if another@7" {
			t.Errorf("after it: %v", got)
		}
	})
}

// following is a Syncer that reads from a memory and writes into it.
type following struct {
	m    *memory
	k    *Syncer
	told int
	stop func()
	err  error
}

func follow(t *testing.T, m *memory) *following {
	t.Helper()
	f := &following{m: m, k: NewSyncer(m.sources(), NewPlan(m.snapshot(t), Options{}), true, batch.Pace{Workers: 8})}
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

// TestFollowStore has Services come, go and change hands, and the store forget: IPAddresses agree.
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
					m.put(Write{Key: "services/specs/ns/broken", Raw: []byte("?")}) // which is left out
					m.put(Write{Key: "services/endpoints/ns/x", Object: &corev1.Namespace{}})
					m.remove("services/specs/ns/broken")
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

func TestFollowStoreFails(t *testing.T) {
	away := errors.New("away")
	for _, op := range []string{"List", "Watch"} {
		synctest.Test(t, func(t *testing.T) {
			m := bare(1)
			f := &following{m: m, k: NewSyncer(m.sources(), NewPlan(m.snapshot(t), Options{}), true, batch.Pace{Workers: 8})}
			m.fail(op, away)
			if err := f.k.FollowStore(t.Context(), m, func() {}); !errors.Is(err, away) {
				t.Errorf("%s fails, and it says %v", op, err)
			}
			f.k.queue.ShutDown()
		})
	}
}
