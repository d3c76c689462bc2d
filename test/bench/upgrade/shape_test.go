package upgrade

import "testing"

func TestEveryServiceButThatOfTheAPIServerHasTwoFamilies(t *testing.T) {
	for shape, want := range map[Shape]int{{Services: 3}: 3, {Services: 3, Dual: true}: 5} {
		if got := shape.addresses(); got != want {
			t.Errorf("%s: %d addresses, want %d", shape, got, want)
		}
	}
}
