package additional

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var (
	web = types.NamespacedName{Namespace: "shop", Name: "web"}
	db  = types.NamespacedName{Namespace: "shop", Name: "db"}
)

func names(requests []reconcile.Request) map[string]bool {
	out := map[string]bool{}
	for _, r := range requests {
		out[r.Name] = true
	}
	return out
}

func TestAskersAreFoundByWhatTheyAskForNow(t *testing.T) {
	var a askers
	a.set(web, []string{"blue", "red"})
	a.set(db, []string{"red"})
	if diff := cmp.Diff(map[string]bool{"web": true, "db": true}, names(a.wake("red"))); diff != "" {
		t.Errorf("who asks for red (-want +got):\n%s", diff)
	}
	a.set(web, []string{"blue"})
	a.set(db, nil)
	if got := a.wake("red"); len(got) > 0 {
		t.Errorf("nobody asks for red any more, got %v", got)
	}
	a.set(web, nil)
	if len(a.names)+len(a.service) > 0 {
		t.Errorf("something is left: %v %v", a.names, a.service)
	}
}

func TestOwnersRememberUntilTheAddressIsGone(t *testing.T) {
	var o owners
	four, six := netip.MustParseAddr("10.1.0.9"), netip.MustParseAddr("fd01::9")
	for _, a := range []netip.Addr{four, six} {
		if before := o.replace(a, web); before.Name != "" {
			t.Errorf("%s is new and was of %s", a, before)
		}
		if before := o.replace(a, db); before != web {
			t.Errorf("%s was of %q, want %s", a, before, web)
		}
		if before := o.replace(a, types.NamespacedName{}); before != db {
			t.Errorf("%s was of %q, want %s", a, before, db)
		}
	}
	if len(o.of) > 0 {
		t.Errorf("something is left: %v", o.of)
	}
}

func TestPatienceTellsOnceUntilAllIsWell(t *testing.T) {
	var p patience
	now := time.Now()
	if p.news(web, "full") {
		t.Error("a Service that lacks nothing was told")
	}
	if waited := p.since(web, now); waited != 0 {
		t.Errorf("it has waited for %s, and begins only now", waited)
	}
	if waited := p.since(web, now.Add(time.Minute)); waited != time.Minute {
		t.Errorf("it has waited for %s", waited)
	}
	if !p.news(web, "full") || p.news(web, "full") || !p.news(web, "missing") {
		t.Error("each text is news once")
	}
	if diff := cmp.Diff(map[string]bool{"web": true}, names(p.wake())); diff != "" {
		t.Errorf("who waits (-want +got):\n%s", diff)
	}
	p.clear(web)
	if p.since(web, now) != 0 || !p.news(web, "full") {
		t.Error("after all was well it begins anew")
	}
}
