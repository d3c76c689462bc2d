package replicas

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A replica hands out nothing while it joins, and when it has gone or is not heard of. One that was there before we looked may be in full swing.
func TestIdle(t *testing.T) {
	terms := terms{duration: defaultDuration, renew: defaultRenew, settle: defaultSettle}
	start := time.Unix(1000, 0)
	of := func(id, version string) lease {
		return lease{id: id, uid: types.UID("uid-" + id), version: version, duration: defaultDuration}
	}
	v := view{me: "me"}.listed([]lease{of("old", "1")}, start, terms)
	v = v.listed([]lease{of("old", "2"), of("young", "1")}, start.Add(3*time.Second), terms)
	expect := func(what, id string, after time.Duration, want bool) {
		t.Helper()
		if span, known := v.idle(terms)[id]; known && span.at(start.Add(after)) != want {
			t.Errorf("%s: %s is idle after %s: %t", what, id, after, !want)
		} else if !known {
			t.Errorf("%s: %s is not known", what, id)
		}
	}
	expect("it was there before", "old", 4*time.Second, false)
	expect("it joins", "young", 4*time.Second, true)
	v = v.listed([]lease{of("old", "2"), of("young", "2")}, start.Add(9*time.Second), terms)
	expect("it may be sure by now", "young", 10*time.Second, false)
	expect("it has not renewed for 8 s", "old", 11*time.Second, true)
	v = v.listed([]lease{of("young", "2")}, start.Add(10*time.Second), terms)
	expect("its Lease is gone", "old", 11*time.Second, true)
}
