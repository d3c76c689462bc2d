package admission

import (
	"testing"
	"time"
)

// One that has not answered is not asked for a while; others are, and it is asked again after that.
func TestSilence(t *testing.T) {
	var s silence
	now := time.Unix(1000, 0)
	if s.is("a", now) {
		t.Error("nobody has been silent yet")
	}
	s.note("a", now)
	if !s.is("a", now.Add(unheard-1)) || s.is("b", now) {
		t.Error("a has not answered, and b was not asked")
	}
	if s.is("a", now.Add(unheard)) {
		t.Error("a is never asked again")
	}
	s.note("b", now.Add(time.Hour))
	if len(s.until) != 1 {
		t.Errorf("remembered are %v, want b alone: a has gone", s.until)
	}
}
