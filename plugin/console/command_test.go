package console

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

func TestHistory(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	ago := func(address string, seconds int) view.Allocation {
		return view.Allocation{Address: netip.MustParseAddr(address), Since: now.Add(-time.Duration(seconds) * time.Second)}
	}
	sorted := []view.Allocation{ago("10.95.255.255", 1), ago("10.96.0.1", 990), ago("10.96.0.2", 100), ago("10.96.0.9", 500), ago("10.96.1.0", 1), ago("fd00::1", 5)}
	all := history(sorted, netip.MustParsePrefix("10.96.0.0/24"), now)
	if len(all) != historyPoints || all[0] != [2]int64{999_010, 1} || all[len(all)-1] != [2]int64{1_000_000, 3} {
		t.Errorf("%d points from %v to %v", len(all), all[0], all[len(all)-1])
	}
	for cidr, want := range map[string][][2]int64{
		"10.96.2.0/24": {},
		"fd00::/64":    {{999_995, 1}, {999_996, 1}, {999_997, 1}, {999_998, 1}, {999_999, 1}, {1_000_000, 1}},
	} {
		if diff := cmp.Diff(want, history(sorted, netip.MustParsePrefix(cidr), now)); diff != "" {
			t.Errorf("%s: %s", cidr, diff)
		}
	}
}

func TestRememberedAnswers(t *testing.T) {
	var asked atomic.Int32
	fail := errors.New("not now")
	ask := func(context.Context) (int32, error) {
		if n := asked.Add(1); n > 1 {
			return n, nil
		}
		return 0, fail
	}
	get := remembered(t.Context(), time.Hour, ask)
	if _, err := get(); !errors.Is(err, fail) {
		t.Errorf("error %v", err)
	}
	for range 3 {
		if n, err := get(); n != 2 || err != nil {
			t.Errorf("answer %d, error %v: a failure is asked again, an answer is not", n, err)
		}
	}
	if get = remembered(t.Context(), 0, ask); cmp.Equal(only1(get()), only1(get())) {
		t.Error("an answer that is too old is given again")
	}
}

func only1[T any](v T, _ error) T { return v }
