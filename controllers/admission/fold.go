package admission

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/plain"
	"github.com/clusterip-operator/clusterip-operator/internal/wording"
)

const (
	// remembered is how many refusals a policy shows.
	remembered = 10
	// messageLimit and serviceLimit are what the schema takes of a refusal's texts, in characters.
	messageLimit, serviceLimit = 256, 128
)

// fold merges the refusals of a namespace for one reason, the latest first, and keeps ten. Beyond
// that it drops the oldest of the namespace that has the most: a tenant that is refused for many
// reasons hides only its own. It cuts the texts of all of them, so that the next write heals a
// status in which another client has stored too much.
func fold(all []v1alpha1.PolicyRefusal) (out []v1alpha1.PolicyRefusal) {
	type reason struct{ namespace, message string }
	at := map[reason]int{} // reason -> index in out
	for _, r := range all {
		r = bounded(r)
		key := reason{namespaceOf(r), r.Message}
		if i, seen := at[key]; seen {
			out[i] = sum(out[i], r)
			continue
		}
		at[key] = len(out)
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b v1alpha1.PolicyRefusal) int {
		return cmp.Or(b.Time.Compare(a.Time.Time), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Message, b.Message))
	})
	for len(out) > remembered {
		out = slices.Delete(out, leastMissed(out), leastMissed(out)+1)
	}
	return out
}

// bounded is a refusal with texts that the schema takes and a terminal may show.
func bounded(r v1alpha1.PolicyRefusal) v1alpha1.PolicyRefusal {
	r.Message, r.Service = fitting(r.Message, messageLimit), fitting(r.Service, serviceLimit)
	return r
}

// fitting cuts before it looks at each of what may be millions of characters, and again after it,
// because what it puts in may be longer.
func fitting(text string, limit int) string {
	return wording.Cut(plain.Text(wording.Cut(text, limit)), limit)
}

// sum counts two refusals for one reason as one.
func sum(a, b v1alpha1.PolicyRefusal) v1alpha1.PolicyRefusal {
	if a.Time.Before(&b.Time) {
		a, b = b, a
	}
	first := func(r v1alpha1.PolicyRefusal) metav1.MicroTime { return *cmp.Or(r.First, &r.Time) }
	a.Count = max(1, a.Count) + max(1, b.Count)
	if earliest := first(b); earliest.Before(new(first(a))) {
		a.First = &earliest
	} else {
		a.First = new(first(a))
	}
	return a
}

// leastMissed is which of the refusals, the latest first, goes when there are too many.
func leastMissed(all []v1alpha1.PolicyRefusal) int {
	of := map[string]int{} // namespace -> its refusals
	for _, r := range all {
		of[namespaceOf(r)]++
	}
	least := 0
	for i, r := range all {
		if of[namespaceOf(r)] >= of[namespaceOf(all[least])] {
			least = i
		}
	}
	return least
}

func namespaceOf(r v1alpha1.PolicyRefusal) string {
	namespace, _, _ := strings.Cut(r.Service, "/")
	return namespace
}
