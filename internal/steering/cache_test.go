package steering

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// watched are informers of two lists that a test changes.
type watched struct {
	cache.Informers
	ctx             context.Context //nolint:containedctx // as long as the test
	policies, cidrs *cachetesting.FakeControllerSource
}

// GetInformer implements cache.Informers.
func (w watched) GetInformer(_ context.Context, of client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	source := w.cidrs
	if _, ok := of.(*v1alpha1.ServiceCIDRPolicy); ok {
		source = w.policies
	}
	informer := toolscache.NewSharedIndexInformer(source, of, 0, toolscache.Indexers{})
	go informer.Run(w.ctx.Done())
	return informer, nil
}

// cidrReadySince is a ServiceCIDR that says that it has been ready for so long.
func cidrReadySince(name string, ago time.Duration, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
		Status: networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{
			Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-ago)),
		}}},
	}
}

// The Cache compiles at the start, after every change that says something new, and after no other;
// and it leaves a range alone for a moment that has just become ready.
func TestCache(t *testing.T) { synctest.Test(t, testCache) }

func testCache(t *testing.T) {
	w := watched{ctx: t.Context(), policies: cachetesting.NewFakeControllerSource(), cidrs: cachetesting.NewFakeControllerSource()}
	t.Cleanup(w.policies.Broadcaster.Shutdown)
	t.Cleanup(w.cidrs.Broadcaster.Shutdown)
	w.cidrs.Add(cidrReadySince("old", time.Hour, "10.0.0.0/24"))
	w.policies.Add(with(policy("first", 0), of("old", "young")))
	b := NewCache()
	if b.Synced() || b.Current() == nil || len(b.Current().Policies()) != 0 {
		t.Error("a new Cache has something to say")
	}
	var compiled atomic.Int32
	b.Subscribe(func(before, after *Compiled) {
		if before == nil || after == nil || after != b.Current() {
			t.Error("subscribers are not told of what is current")
		}
		compiled.Add(1)
	})
	if err := b.Watch(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	go func() { _ = b.Start(t.Context()) }()
	await := func(what string, is func(s *Compiled) bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); !is(b.Current()); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("in vain: %s", what)
			}
		}
	}
	await("the first listing", func(*Compiled) bool { return b.Synced() })
	if got := fmt.Sprint(summary(b.Current().Policy("first"))); got != "[has old 10.0.0.0/24 missing young]" {
		t.Errorf("after the first listing: %s", got)
	}

	time.Sleep(2 * gathering)
	n := compiled.Load()
	same := with(policy("first", 0), of("old", "young"))
	same.Status.Summary.Ranges, same.Labels = 1, map[string]string{"a": "b"}
	w.policies.Modify(same)
	time.Sleep(4 * gathering)
	if compiled.Load() != n {
		t.Error("a new status was compiled")
	}

	added := time.Now()
	w.cidrs.Add(cidrReadySince("young", 0, "10.0.1.0/24"))
	await("the young range is known", func(s *Compiled) bool { return s.Knows("young") })
	await("the young range is used", func(s *Compiled) bool { return s.Offers(addr("10.0.1.9")) })
	if age := time.Since(added); age < readinessDelay {
		t.Errorf("a range is used %s after it has become ready, want %s at least", age, readinessDelay)
	}

	changed := with(policy("first", 0), of("young"))
	changed.Generation++
	w.policies.Modify(changed)
	await("a change of the policy", func(s *Compiled) bool {
		return len(s.Policy("first").Ranges) == 1 && s.Policy("first").Ranges[0].ServiceCIDR == "young"
	})
	w.policies.Delete(changed)
	await("no policy", func(s *Compiled) bool { return len(s.Policies()) == 0 })
	w.cidrs.Delete(cidrReadySince("young", 0))
	await("one range", func(s *Compiled) bool { return !s.Knows("young") && s.Offers(addr("10.0.0.9")) })

	another := cidrReadySince("young", time.Hour, "10.0.1.0/24")
	another.UID = "another"
	added = time.Now()
	w.cidrs.Add(another)
	await("another range of its name is used", func(s *Compiled) bool { return s.Offers(addr("10.0.1.9")) })
	if age := time.Since(added); age < readinessDelay {
		t.Errorf("a range is used %s after it was first seen, want %s at least", age, readinessDelay)
	}
}

// What an informer finds gone when it lists anew, it tells of by a tombstone.
func TestATombstoneIsCompiled(t *testing.T) {
	for _, gone := range []client.Object{policy("p", 0), cidrReadySince("p", time.Hour)} {
		c := NewCache()
		c.handler().OnDelete(toolscache.DeletedFinalStateUnknown{Key: "p", Obj: gone})
		if !c.noted.policies.Union(c.noted.cidrs).Has("p") || len(c.dirty) != 1 {
			t.Errorf("a tombstone of a %T changes nothing", gone)
		}
	}
}

// A ServiceCIDR that another one of its name has replaced, which the cache may see at once, has to
// be ready for a moment again.
func TestAnotherServiceCIDRIsReadyAnew(t *testing.T) {
	c, now := NewCache(), time.Now()
	c.compiled.Store(true)
	o := cidrReadySince("a", time.Hour, "10.0.0.0/24")
	another := o.DeepCopy()
	another.UID = "another"
	for i, step := range []struct {
		of    *networkingv1.ServiceCIDR
		after time.Duration
		want  bool
	}{{o, 0, false}, {o, readinessDelay, true}, {another, 2 * readinessDelay, false}, {another, 3 * readinessDelay, true}} {
		if got := c.read(step.of, now.Add(step.after)).Ready; got != step.want {
			t.Errorf("step %d: it is ready: %v", i, got)
		}
	}
}

// What can wait does until a moment after the last change, and not for ever if they do not end.
func TestCacheIsChanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCache()
		expect := func(what string, want time.Duration) {
			t.Helper()
			if got := c.Changing(); got != want {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		c.Set(Inputs{})
		expect("at the start", 0)
		for range 10 {
			time.Sleep(200 * time.Millisecond)
			c.Set(Inputs{})
			expect("at a change", pause)
		}
		time.Sleep(100 * time.Millisecond)
		expect("after the last change", pause-100*time.Millisecond)
		time.Sleep(pause)
		expect("a moment later", 0)
		for range 60 {
			c.Set(Inputs{})
			time.Sleep(200 * time.Millisecond)
		}
		expect("while changes do not end", 0)
	})
}
