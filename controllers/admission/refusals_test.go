package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// refusalAt is the refusal of a Service so many seconds after the beginning, for a reason of its
// own.
func refusalAt(second int, name string) v1alpha1.PolicyRefusal {
	return v1alpha1.PolicyRefusal{Time: metav1.NewMicroTime(time.Unix(int64(1_700_000_000+second), 123_456_000).UTC()), Service: "ns/" + name, Message: "no room for " + name}
}

// folded is a refusal that stands for several, the first of them at another second.
func folded(r v1alpha1.PolicyRefusal, count int64, first int) v1alpha1.PolicyRefusal {
	r.Count, r.First = count, new(refusalAt(first, "").Time)
	return r
}

// policyStore is a client of policies, which keeps refusals as the API server does.
type policyStore struct {
	client.Client
	refusals map[string][]v1alpha1.PolicyRefusal // by the policies that there are
	before   func(policy string) error
	begin    time.Time
	writes   []string // policies that were written, or were to be
	at       []time.Duration
}

// version changes with every write.
func (s *policyStore) version(policy string) string { return fmt.Sprint(s.refusals[policy]) }

// Get implements client.Reader.
func (s *policyStore) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	refusals, ok := s.refusals[key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "servicecidrpolicies"}, key.Name)
	}
	p := v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: key.Name, ResourceVersion: s.version(key.Name)}}
	p.Status.Refusals = refusals
	p.DeepCopyInto(into.(*v1alpha1.ServiceCIDRPolicy))
	return nil
}

// Status implements client.StatusClient.
func (s *policyStore) Status() client.SubResourceWriter { return statuses{store: s} }

type statuses struct {
	client.SubResourceWriter
	store *policyStore
}

// Patch implements client.SubResourceWriter: a merge patch, refused if the version has changed.
func (w statuses) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	s, name := w.store, o.GetName()
	s.writes, s.at = append(s.writes, name), append(s.at, time.Since(s.begin))
	if s.before != nil {
		if err := s.before(name); err != nil {
			return err
		}
	}
	body, err := p.Data(o)
	if err != nil {
		return err
	}
	var in v1alpha1.ServiceCIDRPolicy
	if err := json.Unmarshal(body, &in); err != nil || p.Type() != types.MergePatchType {
		return fmt.Errorf("a patch of type %s: %w", p.Type(), err)
	}
	if in.ResourceVersion != s.version(name) {
		return apierrors.NewConflict(schema.GroupResource{Resource: "servicecidrpolicies"}, name, nil)
	}
	s.refusals[name] = in.Status.Refusals
	return nil
}

func storeWith(refusals ...v1alpha1.PolicyRefusal) *policyStore {
	return &policyStore{refusals: map[string][]v1alpha1.PolicyRefusal{"p": refusals}, begin: time.Now()}
}

// Two replicas refuse at once: each merges with what is there, and tries again after a conflict.
func TestRefusalsOfTwoReplicas(t *testing.T) {
	store := storeWith(refusalAt(0, "old"))
	mine, theirs := NewRefusals(store, &events.FakeRecorder{}), NewRefusals(store, &events.FakeRecorder{})
	mine.Add("p", refusalAt(1, "a"))
	theirs.Add("p", refusalAt(2, "b"))
	inTheWay := true
	store.before = func(string) error {
		if inTheWay {
			inTheWay = false
			theirs.publish(t.Context(), "p")
		}
		return nil
	}
	mine.publish(t.Context(), "p")
	if diff := cmp.Diff([]v1alpha1.PolicyRefusal{refusalAt(2, "b"), refusalAt(0, "old")}, store.refusals["p"]); diff != "" {
		t.Errorf("the other one was first (-want +got):\n%s", diff)
	}
	mine.Add("p", refusalAt(3, "c"))
	mine.publish(t.Context(), "p")
	want := []v1alpha1.PolicyRefusal{refusalAt(3, "c"), refusalAt(2, "b"), refusalAt(1, "a"), refusalAt(0, "old")}
	if diff := cmp.Diff(want, store.refusals["p"]); diff != "" {
		t.Errorf("the next time (-want +got):\n%s", diff)
	}
	for i := range 3 { // the same again, by both
		mine.Add("p", refusalAt(4+i, "c"))
		theirs.Add("p", refusalAt(5+i, "c"))
	}
	inTheWay = true
	mine.publish(t.Context(), "p") // theirs is written, this one meets the conflict
	mine.publish(t.Context(), "p")
	want[0] = folded(refusalAt(7, "c"), 7, 3)
	if diff := cmp.Diff(want, store.refusals["p"]); diff != "" {
		t.Errorf("counted by both (-want +got):\n%s", diff)
	}
	n := len(store.writes)
	mine.publish(t.Context(), "p")
	if len(store.writes) != n {
		t.Error("nothing is pending, and it is written")
	}
}

// While the API server is away the last ten wait; those of a policy that is gone do not.
func TestRefusalsWait(t *testing.T) {
	store := storeWith()
	r := NewRefusals(store, &events.FakeRecorder{})
	store.before = func(string) error { return errDown }
	for i := range 25 {
		r.Add("p", refusalAt(i, fmt.Sprint("s", i)))
		r.publish(t.Context(), "p")
	}
	if n := len(r.pending["p"]); n != remembered || len(store.writes) != 25 {
		t.Errorf("%d wait after %d attempts, want the last %d", n, len(store.writes), remembered)
	}
	store.before = nil
	r.publish(t.Context(), "p")
	if got := store.refusals["p"]; len(got) != remembered || got[0].Service != "ns/s24" || !got[0].Time.Equal(new(refusalAt(24, "").Time)) {
		t.Errorf("written are %v", got)
	}
	delete(store.refusals, "p")
	r.Add("p", refusalAt(99, "a"))
	r.publish(t.Context(), "p")
	if len(r.pending) != 0 {
		t.Errorf("a policy that is gone: %v wait", r.pending)
	}
}

// A hundred policies refuse at once, one of them in a loop, and another cannot be written: ten
// writes a second all the same, those that wait longest first, and each within its time.
func TestRefusalsOfManyPoliciesAreWrittenAtABoundedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 100
		store := storeWith()
		store.refusals["broken"], store.refusals["looping"] = nil, nil
		store.before = func(policy string) error {
			if policy == "broken" {
				return errDown
			}
			return nil
		}
		r := NewRefusals(store, &events.FakeRecorder{})
		r.Add("broken", refusalAt(0, "a"))
		r.Add("looping", refusalAt(0, "a"))
		var want []string
		for i := range many {
			time.Sleep(time.Millisecond)
			want = append(want, fmt.Sprintf("p-%d", i))
			store.refusals[want[i]] = nil
			r.Add(want[i], refusalAt(i, "a"))
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.Start(ctx) })
		for i := range 1500 {
			time.Sleep(10 * time.Millisecond)
			r.Add("looping", refusalAt(i, "a"))
		}
		stop()
		running.Wait()

		inSecond := map[time.Duration]int{}
		for _, at := range store.at {
			inSecond[at.Truncate(time.Second)]++
		}
		for second, n := range inSecond {
			if n > 10 {
				t.Errorf("%d writes in second %s", n, second)
			}
		}
		others := func(name string) bool { return name == "broken" || name == "looping" }
		if diff := cmp.Diff(want, slices.DeleteFunc(slices.Clone(store.writes), others)); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
		for name, least := range map[string]int{"looping": 5, "broken": 5} {
			n := 0
			for _, written := range store.writes {
				if written == name {
					n++
				}
			}
			if n < least || n > 16 {
				t.Errorf("%s is written %d times in 16 seconds", name, n)
			}
		}
	})
}

// Admins are told by events of policies, at a bounded rate whatever is refused.
func TestRefusalsAreToldToAdmins(t *testing.T) {
	recorder := events.NewFakeRecorder(100)
	store := storeWith()
	r := NewRefusals(store, recorder)
	for i := range 30 {
		r.Add("p", of(2*i, "shop/a", "the range is closed"), of(2*i+1, "shop/b", "the range is closed"))
		r.publish(t.Context(), "p")
	}
	if n := len(recorder.Events); n < 1 || n > eventsAtOnce+1 {
		t.Errorf("%d events of 30 writes, want %d", n, eventsAtOnce)
	}
	if got, want := <-recorder.Events, "Warning ServiceRefused Refused Service shop/b: the range is closed"; got != want {
		t.Errorf("the event is %q, want %q", got, want)
	}
}
