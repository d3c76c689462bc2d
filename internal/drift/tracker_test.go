package drift

import (
	"maps"
	"testing"
	"time"
)

var start = time.Unix(1000, 0)

func TestSuspectLastsBeforeItIsBelieved(t *testing.T) {
	var tracker Tracker[string]
	if left := tracker.Suspect("a", Missing, start, time.Second); left != time.Second {
		t.Errorf("the first look may be believed in %v, want 1s", left)
	}
	if left := tracker.Suspect("a", Missing, start.Add(400*time.Millisecond), time.Second); left != 600*time.Millisecond {
		t.Errorf("after 400ms it is %v, want 600ms", left)
	}
	if left := tracker.Suspect("a", Orphan, start.Add(time.Second), time.Second); left != time.Second {
		t.Errorf("another finding begins at %v, want 1s", left)
	}
	if left := tracker.Suspect("a", Orphan, start.Add(3*time.Second), time.Second); left != 0 {
		t.Errorf("a finding that lasted is believed in %v, want now", left)
	}
}

func TestBelieveOnceAndCount(t *testing.T) {
	var tracker Tracker[string]
	if tracker.Believe("a") {
		t.Error("what nobody suspected was believed")
	}
	for _, key := range []string{"a", "b", "c"} {
		tracker.Suspect(key, Missing, start, 0)
	}
	if !tracker.Believe("a") || !tracker.Believe("b") || tracker.Believe("a") {
		t.Error("a confirmation must be new once and only once")
	}
	if got := tracker.Count(); !maps.Equal(got, map[Type]int{Missing: 2}) {
		t.Errorf("count is %v, want two missing: suspicions are no drift", got)
	}
	tracker.Clear("a")
	if got := tracker.Count(); got[Missing] != 1 {
		t.Errorf("count after a repair is %v, want one", got)
	}
}

func TestReportSameTextOnce(t *testing.T) {
	var tracker Tracker[string]
	tracker.Suspect("a", Duplicate, start, 0)
	if !tracker.Report("a", "two") || !tracker.Report("a", "three") || tracker.Report("a", "two") {
		t.Error("want every text reported once")
	}
	tracker.Suspect("a", Missing, start, 0)
	if tracker.Report("a", "two") {
		t.Error("what was told is news again because something else is wrong now")
	}
	tracker.Clear("a")
	tracker.Suspect("a", Duplicate, start, 0)
	if !tracker.Report("a", "two") {
		t.Error("what was repaired and came back is news")
	}
}
