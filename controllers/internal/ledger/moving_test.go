package ledger

import (
	"fmt"
	"testing"
	"time"
)

// A full range is worth waiting for while addresses come and go there, and not otherwise.
func TestMoving(t *testing.T) {
	for _, ips := range [][]string{{"10.0.0.1", "10.0.0.2"}, {"fd00::1", "fd00::2"}} {
		one, other := lot(t, ips[0]).Tiers, lot(t, ips[1]).Tiers
		b := newTimed(rules{})
		expect := func(what string, want bool) {
			t.Helper()
			if got := b.Moving(one); got != want {
				t.Errorf("%s: %t", what, got)
			}
			if b.Moving(other) {
				t.Errorf("%s: nothing happens at %s", what, ips[1])
			}
		}
		expect("nothing has happened", false)
		b.draw(t, ips[0], "a")
		expect("one is handed out", true)
		b.objects.OnAdd(allocated(ips[0], "a"), false)
		b.services.OnAdd(service("a", ips[0]), false)
		expect("it is there", false)
		b.services.OnDelete(service("a", ips[0]))
		b.objects.OnDelete(allocated(ips[0], "a"))
		expect("it came free", true)
		b.pass(lately + time.Second)
		expect("it came free long ago", false)
	}
}

// Of many that came free the last ones are remembered.
func TestMovingRemembersTheLast(t *testing.T) {
	b := newTimed(rules{})
	for i := range remembered + 1 {
		ip := fmt.Sprintf("10.0.1.%d", i)
		b.objects.OnAdd(allocated(ip, "a"), false)
		b.objects.OnDelete(allocated(ip, "a"))
	}
	if b.Moving(lot(t, "10.0.1.0").Tiers) || !b.Moving(lot(t, fmt.Sprintf("10.0.1.%d", remembered)).Tiers) {
		t.Error("the last one is forgotten, or the first is not")
	}
}
