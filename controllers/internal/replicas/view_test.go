package replicas

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

var (
	usual = terms{duration: 15 * time.Second, renew: 3 * time.Second, settle: 8 * time.Second}
	epoch = time.Unix(1_000_000, 0)
)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

func held(id string, uid types.UID, version string, knows ...types.UID) lease {
	return lease{id: id, uid: uid, version: version, knows: knows, duration: usual.duration}
}

// story is what happens to the view of replica a.
type story struct{ view }

func begin() *story { return &story{view{me: "a"}} }

func (s *story) lists(second int, leases ...lease) *story {
	s.view = s.listed(leases, at(second), usual)
	return s
}

func (s *story) writes(second int, own lease) *story {
	s.view = s.written(own, at(second), at(second))
	return s
}

func TestViewIsSure(t *testing.T) {
	type span struct{ From, Until time.Time }
	for name, tc := range map[string]struct {
		story *story
		want  span
	}{
		"never before it has a Lease": {begin().lists(0), span{}},
		"not before a list has shown that nobody else is there": {
			begin().lists(0).writes(1, held("a", "1", "1")), span{},
		},
		"not before it has said so": {
			begin().lists(0).writes(1, held("a", "1", "1")).lists(2, held("a", "1", "1")), span{},
		},
		"alone, when the addresses have settled": {
			begin().lists(0).writes(1, held("a", "1", "1")).lists(2, held("a", "1", "1")).writes(9, serving(held("a", "1", "2"))), span{at(10), at(21)},
		},
		"a second after it could say so": {
			begin().lists(0).writes(1, held("a", "1", "1")).lists(2, held("a", "1", "1")).writes(12, serving(held("a", "1", "2"))), span{at(13), at(24)},
		},
		"as long as it renews": {
			begin().lists(0).writes(1, held("a", "1", "1")).lists(2, held("a", "1", "1")).writes(9, serving(held("a", "1", "2"))).
				writes(12, serving(held("a", "1", "3"))),
			span{at(10), at(24)},
		},
		"not by a renewal that changed nothing": {
			begin().lists(0).writes(1, held("a", "1", "1")).lists(2, held("a", "1", "1")).writes(9, serving(held("a", "1", "2"))).
				writes(12, serving(held("a", "1", "2"))),
			span{at(10), at(21)},
		},
		"not before the others know it": {
			begin().lists(0, held("b", "9", "9")).writes(1, held("a", "1", "1", "9")).
				lists(2, held("b", "9", "9"), held("a", "1", "1", "9")),
			span{},
		},
		"not if the others know its last Lease only": {
			begin().lists(0).writes(1, held("a", "1", "1")).lists(2, held("a", "1", "1")).
				lists(3, held("b", "9", "9", "1")).writes(4, held("a", "2", "10", "9")).lists(5, held("b", "9", "9", "1"), held("a", "2", "10", "9")),
			span{},
		},
		"when the last of the others knows it": {
			begin().lists(0, held("b", "9", "9")).writes(1, held("a", "1", "1", "9")).
				lists(2, held("b", "9", "10", "1"), held("a", "1", "1", "9")).writes(9, serving(held("a", "1", "2", "9"))),
			span{at(10), at(21)},
		},
		"though somebody comes who does not know it yet": {
			begin().lists(0).writes(1, held("a", "1", "1")).lists(2, held("a", "1", "1")).lists(3, held("a", "1", "1"), held("b", "9", "9")).
				writes(9, serving(held("a", "1", "2", "9"))),
			span{at(10), at(21)},
		},
		"no longer when its Lease is gone": {
			begin().lists(0).writes(1, held("a", "1", "1")).lists(2, held("a", "1", "1")).writes(9, serving(held("a", "1", "2"))).lists(10), span{},
		},
		"not by the echo of a creation that was given up": {
			begin().lists(0).writes(1, held("a", "1", "1")).lists(2, held("a", "1", "1")).writes(9, serving(held("a", "1", "2"))).
				lists(10, serving(held("a", "2", "7"))),
			span{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, until := tc.story.sure(usual)
			if diff := cmp.Diff(tc.want, span{from, until}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestViewReckonsWithThoseWhoWentLately(t *testing.T) {
	s := begin().lists(0, held("b", "9", "9"), held("c", "8", "8"))
	for _, tc := range []struct {
		story                    string
		second                   int
		leases                   []lease
		wantLiving, wantReckoned []string
	}{
		{"all are there", 1, []lease{held("b", "9", "9"), held("c", "8", "8")}, []string{"a", "b", "c"}, []string{"a", "b", "c"}},
		{"b goes", 3, []lease{held("c", "8", "8")}, []string{"a", "c"}, []string{"a", "b", "c"}},
		{"b went a moment ago", 10, []lease{held("c", "8", "8")}, []string{"a", "c"}, []string{"a", "b", "c"}},
		{"b went long ago", 11, []lease{held("c", "8", "8")}, []string{"a", "c"}, []string{"a", "c"}},
		{"c is another c", 12, []lease{held("c", "7", "11")}, []string{"a", "c"}, []string{"a", "c"}},
	} {
		s.lists(tc.second, tc.leases...)
		if diff := cmp.Diff(tc.wantLiving, s.living()); diff != "" {
			t.Errorf("%s: living, -want +got:\n%s", tc.story, diff)
		}
		if diff := cmp.Diff(tc.wantReckoned, s.reckoned()); diff != "" {
			t.Errorf("%s: reckoned with, -want +got:\n%s", tc.story, diff)
		}
	}
}

func TestViewKnowsWhatToWrite(t *testing.T) {
	alone := func() *story { return begin().lists(0).writes(1, held("a", "1", "1")).lists(2, held("a", "1", "1")) }
	for name, tc := range map[string]struct {
		story   *story
		want    lease
		wantDue bool
	}{
		"its first Lease, with all that it has seen": {
			begin().lists(2, held("b", "9", "9"), held("c", "8", "8")), held("a", "", "", "8", "9"), true,
		},
		"nothing as long as all is well": {alone(), held("a", "1", "1"), false},
		"a renewal when it is time":      {alone().lists(4, held("a", "1", "1")), held("a", "1", "1"), true},
		"whom it has come to know":       {alone().lists(3, held("a", "1", "1"), held("b", "9", "9")), held("a", "1", "1", "9"), true},
		"who went": {
			alone().lists(3, held("a", "1", "1", "9")), held("a", "1", "1"), true,
		},
		"again what somebody overwrote": {alone().lists(3, held("a", "1", "5", "junk")), held("a", "1", "5"), true},
	} {
		t.Run(name, func(t *testing.T) {
			now := at(3)
			if name == "a renewal when it is time" {
				now = at(4)
			}
			got, due := tc.story.next(now, usual)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(lease{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if due != tc.wantDue {
				t.Errorf("due is %t, want %t", due, tc.wantDue)
			}
		})
	}
}

func TestViewCountsOutWhoIsSilent(t *testing.T) {
	s := begin().lists(0, held("b", "9", "9"), held("c", "8", "8"))
	for second := 5; second <= 30; second += 5 {
		s.lists(second, held("b", "9", "9"), held("c", "8", "88"))
	}
	for second, want := range map[int][]string{17: nil, 18: {"b"}, 22: {"b"}, 23: {"b", "c"}} {
		if diff := cmp.Diff(want, dead(s.expired(at(second)))); diff != "" {
			t.Errorf("after %d s, -want +got:\n%s", second, diff)
		}
	}
}

func TestViewCountsOutByTheLeasesOwnDuration(t *testing.T) {
	brief := held("brief", "7", "7")
	brief.duration = 5 * time.Second
	s := begin().lists(0, brief)
	if got := dead(s.expired(at(5))); got != nil {
		t.Errorf("%v expired too early", got)
	}
	if diff := cmp.Diff([]string{"brief"}, dead(s.expired(at(6)))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestViewDoesNotTakeItsOwnDeafnessForSilence(t *testing.T) {
	s := begin().lists(0, held("b", "9", "9")).lists(60, held("b", "9", "9")).lists(63, held("b", "9", "9"))
	if got := dead(s.expired(at(77))); got != nil {
		t.Errorf("%v was counted out, who could not be heard", got)
	}
	if diff := cmp.Diff([]string{"b"}, dead(s.expired(at(78)))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func dead(leases []lease) (names []string) {
	for _, l := range leases {
		names = append(names, l.id)
	}
	slices.Sort(names)
	return names
}
