package additional

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// A tenant drops what its Services ask for, and asks again, as fast as it can. What is written and
// told does not depend on it, and other namespaces notice nothing.
func TestDrawsHaveARate(t *testing.T) {
	r, offers := newTeller(), newCluster(t)
	r.Index = addressindex.New()
	written := 0
	r.Client = interceptor.NewClient(nil, interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
		written++
		o.SetUID(types.UID(o.GetName()))
		return nil
	}})
	// ask has a Service ask for eight addresses at a time, and returns how many it got.
	ask := func(namespace, name string, at time.Time) int {
		t.Helper()
		in := inputs{now: at, name: types.NamespacedName{Namespace: namespace, Name: name}, service: &service{uid: types.UID(name)}, offers: offers.offers}
		all, before := decision{}, written
		for range 8 {
			all.draw = append(all.draw, slot{"blue", allocator.IPv6})
		}
		if again := r.spent(in, all); again > 0 {
			if again < confirmFor || again > longestPause {
				t.Errorf("asked again after %s", again)
			}
			return 0
		}
		if _, err := r.act(t.Context(), in, all); err != nil {
			t.Fatal(err)
		}
		return written - before
	}
	start, got := time.Unix(1000, 0), 0
	for i := range 1000 { // each second a hundred
		got += ask("hostile", fmt.Sprint("s", i%10), start.Add(time.Duration(i)*10*time.Millisecond))
	}
	if want := drawBurst + int(10*time.Second/drawEvery); got < want-8 || got > want+8 {
		t.Errorf("%d addresses were written in ten seconds, want about %d", got, want)
	}
	if told := len(r.events.Events); told > newsBurst+2 {
		t.Errorf("%d were told", told)
	}
	before := len(r.events.Events)
	if n := ask("friendly", "web", start); n != 8 || len(r.events.Events) != before+8 {
		t.Errorf("a Service of another namespace got %d of eight addresses, and was told of %d", n, len(r.events.Events)-before)
	}
	hostile := inputs{now: start.Add(10 * time.Second), name: types.NamespacedName{Namespace: "hostile", Name: "s0"}}
	if again := r.spent(hostile, decision{release: []held{{}}}); again != 0 {
		t.Errorf("what it has to give back is held for %s", again)
	}
}
