// Package conditions makes the conditions of objects. Everything here is a pure function; package
// objects writes them.
package conditions

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/internal/wording"
)

// MessageLimit is to how many bytes Observed cuts a message. The schema takes 32,768 characters.
const MessageLimit = 8192

// New returns a condition that says some texts, one after the other. It has no time yet.
func New(kind string, status metav1.ConditionStatus, reason string, texts ...string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: strings.Join(texts, " ")}
}

// Observed marks conditions as being of a generation, in place, and cuts messages to MessageLimit.
func Observed(generation int64, all ...metav1.Condition) []metav1.Condition {
	for i := range all {
		all[i].ObservedGeneration, all[i].Message = generation, wording.Cut(all[i].Message, MessageLimit)
	}
	return all
}

// Same reports whether two conditions of a type say the same, whenever, and of which generation.
func Same(a, b metav1.Condition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// Pick returns the conditions of some types, in the order of the types.
func Pick(all []metav1.Condition, types ...string) (out []metav1.Condition) {
	for _, kind := range types {
		if c := meta.FindStatusCondition(all, kind); c != nil {
			out = append(out, *c)
		}
	}
	return out
}

// Dated returns conditions with the time of the last transition: the earlier one if there was none.
func Dated(before, want []metav1.Condition, now time.Time) []metav1.Condition {
	out := slices.Clone(want)
	for i, c := range out {
		out[i].LastTransitionTime = metav1.NewTime(now)
		if was := meta.FindStatusCondition(before, c.Type); was != nil && was.Status == c.Status {
			out[i].LastTransitionTime = was.LastTransitionTime
		}
	}
	return out
}
