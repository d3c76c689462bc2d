package replicas

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// serving is the Lease of a replica that serves.
func serving(l lease) lease {
	l.serves = true
	return l
}

// Who settles addresses follows from what the Leases say, and from who answers.
func TestInLine(t *testing.T) {
	const second = 30
	everybody := func() *story {
		// a is sure from 10 on.
		return begin().lists(0).writes(1, held("a", "1", "1")).lists(2, held("a", "1", "1")).
			lists(second-1, serving(held("b", "9", "9")), serving(held("c", "8", "8")), serving(held("a", "1", "2"))).
			writes(second-1, serving(held("a", "1", "3", "8", "9")))
	}
	for name, tc := range map[string]struct {
		story  *story
		second int
		silent []string
		want   []string
	}{
		"all serve":              {everybody(), second, nil, []string{"a", "b", "c"}},
		"one does not answer":    {everybody(), second, []string{"c"}, []string{"a", "b"}},
		"nobody answers":         {everybody(), second, []string{"b", "c"}, []string{"a"}},
		"this one hears nothing": {everybody(), second + 7, nil, []string{"a", "b", "c"}},
		"one is not heard of": {
			everybody().lists(second+6, serving(held("b", "9", "9")), serving(held("c", "8", "88")), serving(held("a", "1", "3", "8", "9"))),
			second + 6, nil, []string{"a", "c"},
		},
		"one has just gone":      {everybody().lists(second, serving(held("b", "9", "9")), held("a", "1", "3")), second, nil, []string{"a", "b", "c"}},
		"one has gone":           {everybody().lists(second, serving(held("b", "9", "9")), held("a", "1", "3")), second + 1, nil, []string{"a", "b"}},
		"one has come back anew": {everybody().lists(second, serving(held("b", "7", "30")), serving(held("c", "8", "8")), held("a", "1", "3")), second, nil, []string{"a", "b", "c"}},
		"one has just come": {
			everybody().lists(second, held("d", "7", "30"), serving(held("b", "9", "9")), serving(held("c", "8", "8")), held("a", "1", "3")),
			second, nil, []string{"a", "b", "c"},
		},
		"this one has just come": {
			begin().lists(0, serving(held("b", "9", "9"))).writes(1, held("a", "1", "1", "9")).lists(2, serving(held("b", "9", "10", "1")), held("a", "1", "1", "9")),
			3, nil, []string{"b"},
		},
		"this one says that it serves": {
			begin().lists(0, serving(held("b", "9", "9"))).writes(1, held("a", "1", "1", "9")).lists(2, serving(held("b", "9", "10", "1")), held("a", "1", "1", "9")).
				writes(8, serving(held("a", "1", "12", "9"))).lists(9, serving(held("b", "9", "11", "1")), serving(held("a", "1", "12", "9"))),
			10, nil, []string{"a", "b"},
		},
		"this one has just come, and nobody answers": {
			begin().lists(0, serving(held("b", "9", "9"))).writes(1, held("a", "1", "1", "9")), 2, []string{"b"}, []string{"a"},
		},
		"all have just come": {
			begin().lists(0, held("b", "9", "9")).writes(1, held("a", "1", "1", "9")), 2, nil, []string{"a", "b"},
		},
		"this one could not renew its Lease, and the others do": {
			everybody().lists(second+20, serving(held("b", "9", "99")), held("a", "1", "3")), second + 21, nil, []string{"b"},
		},
		"this one is alone": {begin().lists(0).writes(1, held("a", "1", "1")), 2, nil, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := standingOf(tc.story.view, usual)
			got := s.inLine(at(tc.second), func(name string) bool { return slices.Contains(tc.silent, name) })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A replica says that it serves a moment before it is sure, and not before others know it.
func TestViewSaysThatItServes(t *testing.T) {
	s := begin().lists(0).writes(1, held("a", "1", "1"))
	if s.serves(at(60), usual) {
		t.Error("it is not admitted")
	}
	s.lists(2, held("a", "1", "1"))
	for _, tc := range []struct {
		after time.Duration
		want  bool
	}{{8999 * time.Millisecond, false}, {9 * time.Second, true}} {
		next, due := s.next(epoch.Add(tc.after), terms{duration: usual.duration, renew: time.Hour, settle: usual.settle})
		if next.serves != tc.want || due != tc.want {
			t.Errorf("after %s it says %t, due %t", tc.after, next.serves, due)
		}
	}
}

// idleClock stands still.
type idleClock struct {
	clock.Clock
	now time.Time
}

func (c *idleClock) Now() time.Time { return c.now }

// Every address is settled by one replica, if all see the same: by its owner, or by the heir that all others name.
func TestOneSettlesEachAddress(t *testing.T) {
	names := []string{"a", "b", "c"}
	all := map[string]*Members{}
	clk := &idleClock{now: at(30)}
	for _, name := range names {
		m := newMembers(name, nil, Options{Clock: clk}.withDefaults())
		v := view{me: name}.listed(nil, at(0), usual).written(held(name, types.UID("u"+name), "1"), at(1), at(1)).listed([]lease{held(name, types.UID("u"+name), "1")}, at(2), usual)
		leases := []lease{serving(held(name, types.UID("u"+name), "1"))}
		for _, other := range names {
			if other != name {
				leases = append(leases, serving(held(other, types.UID("u"+other), "1", types.UID("u"+name))))
			}
		}
		m.view = v.listed(leases, at(29), usual).written(serving(held(name, types.UID("u"+name), "2")), at(29), at(29))
		m.publish()
		all[name] = m
	}
	check := func(what string, want map[Grant]int, asked ...string) {
		t.Helper()
		got := map[Grant]int{}
		for i := range 300 {
			a := netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", i/256, i%256))
			holders := map[string]bool{}
			settled := 0
			for _, name := range asked {
				r := all[name].Rights()
				holders[r.holder(a)] = true
				if grant := r.Of(a); grant != Refused {
					got[grant]++
					settled++
					if r.holder(a) != name {
						t.Fatalf("%s: %s settles %s, and says that %s does", what, name, a, r.holder(a))
					}
				}
			}
			if settled != 1 || len(holders) != 1 {
				t.Fatalf("%s: %d settle %s, and %v are named", what, settled, a, holders)
			}
		}
		for grant, n := range want {
			if got[grant] < n {
				t.Errorf("%s: of 300 addresses %v are settled, want at least %v", what, got, want)
			}
		}
	}
	check("all serve", map[Grant]int{Outright: 300}, names...)
	for _, name := range []string{"a", "c"} {
		all[name].silence.asked("b", clk.now)
	}
	check("b does not answer", map[Grant]int{Outright: 150, Claimable: 50}, "a", "c")
	for _, name := range []string{"a", "c"} {
		all[name].heard("b")
	}
	check("b is heard again", map[Grant]int{Outright: 300}, names...)
}

func TestSilence(t *testing.T) {
	var s silence
	if s.of("b") {
		t.Error("nobody was asked yet")
	}
	s.asked("b", at(1))
	if !s.of("b") || s.of("c") {
		t.Error("b has not answered, and c was not asked")
	}
	s.broken("b", at(2))
	if s.of("b") {
		t.Error("b was heard")
	}
	s.asked("b", at(1))
	if s.of("b") {
		t.Error("b was heard after it was asked")
	}
	s.asked("b", at(3))
	s.keep(map[string]bool{"c": true})
	if s.of("b") || len(s.heard) > 0 {
		t.Error("b is gone, and remembered")
	}
}

// A replica that says that it serves is listened to at once: its heirs have to stop.
func TestAlarmRingsForWhatMatters(t *testing.T) {
	first := held("b", "9", "9", "1")
	known, stranger := serving(held("b", "9", "10", "1")), held("c", "8", "8")
	for name, tc := range map[string]struct {
		then lease
		gone bool
		want bool
	}{
		"a renewal":            {held("b", "9", "10", "1"), false, false},
		"it knows another one": {held("b", "9", "10", "1", "2"), false, true},
		"it serves":            {known, false, true},
		"it is gone":           {first, true, true},
		"another one has come": {stranger, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAlarm()
			a.last = map[types.UID]lease{}
			a.changed(first, false)
			<-a.rings
			a.changed(tc.then, tc.gone)
			if got := len(a.rings) > 0; got != tc.want {
				t.Errorf("it rings: %t", got)
			}
		})
	}
}
