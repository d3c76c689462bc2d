package addressindex

import (
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// What just came free is left alone if its tier has another; otherwise the first freed goes first.
func TestFreshOnesAreLeftAlone(t *testing.T) {
	for _, ips := range [][]string{{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, {"fd00::1", "fd00::2", "fd00::3"}} {
		for name, tc := range map[string]struct {
			order []*allocator.Tier
			fresh []string
			want  string
		}{
			"another one is there":              {tier(t, ips[:2]...), ips[:1], ips[1]},
			"there is none":                     {tier(t, ips[0]), ips[:1], ips[0]},
			"there is one in another tier":      {append(tier(t, ips[0]), tier(t, ips[1])...), ips[:1], ips[0]},
			"there is one that cools":           {tier(t, ips[0], ips[2]), ips[:1], ips[0]},
			"another one, and one that cools":   {tier(t, ips...), ips[:1], ips[1]},
			"two came free, this one first":     {tier(t, ips[:2]...), []string{ips[1], ips[0]}, ips[1]},
			"two came free, the other one late": {tier(t, ips[:2]...), []string{ips[0], ips[1]}, ips[0]},
		} {
			t.Run(name, func(t *testing.T) {
				for range 8 { // a draw is random
					b := newTimed(rules{coolDown: time.Hour})
					b.objects.OnAdd(ownedIP(ips[2], "cooling", "1"), true)
					b.SetRules(rules{}) // but for that one
					for _, ip := range tc.fresh {
						b.served("before", ip)
						b.pass(10 * time.Millisecond)
					}
					if drawn, err := b.Draw(tc.order, forService("a")); err != nil || drawn.Addr != addr(tc.want) {
						t.Errorf("drawn: %v, %v, want %q", drawn, err, tc.want)
					}
					if b.InFlight() != 1 {
						t.Errorf("%d are in flight", b.InFlight())
					}
					b.expect(t, "drawn", ips[2], allocator.Cooling)
					b.expect(t, "drawn", tc.want, allocator.Assumed)
					for _, ip := range ips[:2] {
						if ip != tc.want {
							b.expect(t, "not drawn", ip, allocator.Free)
						}
					}
				}
			})
		}
	}
}

// A full range is worth waiting for while addresses come and go there, and not otherwise.
func TestMoving(t *testing.T) {
	for _, ips := range [][]string{{"10.0.0.1", "10.0.0.2"}, {"fd00::1", "fd00::2"}} {
		one, other := tier(t, ips[0]), tier(t, ips[1])
		b := newTimed(rules{})
		expect := func(what string, want bool) {
			t.Helper()
			if got := b.moving(one); got != want {
				t.Errorf("%s: %t", what, got)
			}
			if b.moving(other) {
				t.Errorf("%s: nothing happens at %s", what, ips[1])
			}
		}
		expect("nothing has happened", false)
		b.draw(t, ips[0], "a")
		expect("one is handed out", true)
		b.serve("a", ips[0])
		expect("it is there", false)
		b.release("a", ips[0])
		expect("it came free", true)
		b.pass(recently + time.Second)
		expect("it came free long ago", false)
	}
}
