package inspect

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

type pastRefusal struct {
	Policy string `json:"policy"`
	v1alpha1.PolicyRefusal
}

// foldRefusals makes one of those of a policy that tell the Services of a namespace the same, with
// their count, and orders them, the latest first. Statuses of earlier versions are not folded.
func foldRefusals(all []pastRefusal) (out []pastRefusal) {
	type reason struct{ policy, namespace, message string }
	at := map[reason]int{} // reason -> index in out
	slices.SortStableFunc(all, func(a, b pastRefusal) int { return cmp.Compare(b.Time.UnixMicro(), a.Time.UnixMicro()) })
	for _, r := range all {
		namespace, _, _ := strings.Cut(r.Service, "/")
		key := reason{r.Policy, namespace, r.Message}
		i, seen := at[key]
		if !seen {
			at[key] = len(out)
			out = append(out, r)
			continue
		}
		out[i].Count = max(1, out[i].Count) + max(1, r.Count)
		if begin := firstOf(r); out[i].First == nil || begin.Before(out[i].First) {
			out[i].First = &begin
		}
	}
	return out
}

// firstOf is when the first request was refused that an entry counts.
func firstOf(r pastRefusal) metav1.MicroTime {
	if r.First != nil {
		return *r.First
	}
	return r.Time
}
