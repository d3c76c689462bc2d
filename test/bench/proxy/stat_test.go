package proxy

import (
	"testing"
	"time"
)

func TestStat(t *testing.T) {
	const stat = "4711 (a) b) S 1 2 3 4 5 6 7 8 9 10 110 120 30 40 20 0 5 0 98765 1000 200\n"
	fields, err := statFields([]byte(stat))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := used(fields), 3*time.Second; got != want {
		t.Errorf("used %s, want %s", got, want)
	}
	if got, want := fields[fieldStart], 987650*time.Millisecond; got != want {
		t.Errorf("started at %s, want %s", got, want)
	}
}

func TestStatThatIsNone(t *testing.T) {
	for _, stat := range []string{"", "1 (a) S 2 3", "1 (a) S 1 2 3 4 5 6 7 8 9 10 x 120 30 40 20 0 5 0 98765"} {
		if _, err := statFields([]byte(stat)); err == nil {
			t.Errorf("%q is accepted", stat)
		}
	}
}
