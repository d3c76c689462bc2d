package conditions

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestObserved(t *testing.T) {
	got := Observed(3, New("A", "True", "R", "one.", "two."), New("B", "False", "R", strings.Repeat("ü", MessageLimit)))
	want := []metav1.Condition{
		{Type: "A", Status: "True", Reason: "R", Message: "one. two.", ObservedGeneration: 3},
		{Type: "B", Status: "False", Reason: "R", Message: strings.Repeat("ü", MessageLimit/2-2) + "...", ObservedGeneration: 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The time is that of the last change of the status, whatever else changes.
func TestDated(t *testing.T) {
	then, now := metav1.Unix(1000, 0), metav1.Unix(2000, 0)
	before := []metav1.Condition{
		{Type: "Other", Status: "True", LastTransitionTime: then}, {Type: "Kept", Status: "True", Reason: "R", LastTransitionTime: then},
		{Type: "Changed", Status: "False", LastTransitionTime: then},
	}
	want := []metav1.Condition{New("New", "True", "R"), New("Kept", "True", "Q", "in other words"), New("Changed", "True", "R")}
	got := Dated(before, want, now.Time)
	for i, at := range []metav1.Time{now, then, now} {
		if !got[i].LastTransitionTime.Equal(&at) || !Same(got[i], want[i]) {
			t.Errorf("%s: %+v, want the time %v", want[i].Type, got[i], at)
		}
		if !want[i].LastTransitionTime.IsZero() {
			t.Errorf("%s: what was handed in has changed", want[i].Type)
		}
	}
	if picked := Pick(before, "Changed", "Missing", "Other"); len(picked) != 2 || picked[0].Type != "Changed" || picked[1].Type != "Other" {
		t.Errorf("picked %v", picked)
	}
	if !Same(before[0], New("Other", "True", "")) || Same(before[1], got[1]) || Dated(nil, nil, time.Time{}) != nil {
		t.Error("what is the same, and what is not")
	}
}
