package admission

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// of is a refusal in a namespace, for a reason.
func of(second int, service, message string) v1alpha1.PolicyRefusal {
	r := refusalAt(second, "")
	r.Service, r.Message = service, message
	return r
}

func TestFold(t *testing.T) {
	for name, tc := range map[string]struct{ all, want []v1alpha1.PolicyRefusal }{
		"none": {},
		"one":  {[]v1alpha1.PolicyRefusal{of(1, "ns/a", "full")}, []v1alpha1.PolicyRefusal{of(1, "ns/a", "full")}},
		"of one namespace for one reason": {
			[]v1alpha1.PolicyRefusal{of(2, "ns/a", "full"), of(1, "ns/b", "full"), of(3, "ns/c", "full")},
			[]v1alpha1.PolicyRefusal{folded(of(3, "ns/c", "full"), 3, 1)}},
		"of two namespaces": {
			[]v1alpha1.PolicyRefusal{of(1, "ns/a", "full"), of(2, "other/a", "full"), of(3, "ns/a", "full")},
			[]v1alpha1.PolicyRefusal{folded(of(3, "ns/a", "full"), 2, 1), of(2, "other/a", "full")}},
		"for two reasons": {
			[]v1alpha1.PolicyRefusal{of(1, "ns/a", "full"), of(2, "ns/a", "closed")},
			[]v1alpha1.PolicyRefusal{of(2, "ns/a", "closed"), of(1, "ns/a", "full")}},
		"what is folded already": {
			[]v1alpha1.PolicyRefusal{folded(of(9, "ns/a", "full"), 5, 2), folded(of(8, "ns/b", "full"), 2, 1)},
			[]v1alpha1.PolicyRefusal{folded(of(9, "ns/a", "full"), 7, 1)}},
		"control characters, which make no difference": {
			[]v1alpha1.PolicyRefusal{of(1, "ns/a\x1b[2J", "full\n\u202e"), of(2, "ns/b\x9b", "full\x1b\x00")},
			[]v1alpha1.PolicyRefusal{folded(of(2, "ns/b\ufffd", "full\ufffd\ufffd"), 2, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, fold(tc.all)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Ten stay, whatever the order: the latest, but a tenant that is refused for many reasons hides its
// own alone.
func TestFoldKeepsTen(t *testing.T) {
	var all, want []v1alpha1.PolicyRefusal
	for i := range 30 {
		all = append(all, of(100+i, "loud/a", fmt.Sprint("reason ", i)))
	}
	for i := range 8 {
		want = append(want, of(129-i, "loud/a", fmt.Sprint("reason ", 29-i)))
	}
	quiet := []v1alpha1.PolicyRefusal{of(2, "quiet/a", "full"), of(1, "other/a", "full")}
	all, want = append(all, quiet...), append(want, quiet...)
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if diff := cmp.Diff(want, fold(all)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		one := []v1alpha1.PolicyRefusal{} // one after another, as they come
		for _, r := range all {
			one = fold(append(one, r))
		}
		if len(one) != remembered || !slices.Contains(servicesOf(one), "quiet/a") || !slices.Contains(servicesOf(one), "other/a") {
			t.Fatalf("one after another: %v", one)
		}
	}
}

func servicesOf(all []v1alpha1.PolicyRefusal) (names []string) {
	for _, r := range all {
		names = append(names, r.Service)
	}
	return names
}

// Whatever is refused, and whatever another client has written into the status: what is kept has a
// bound.
func TestFoldIsBounded(t *testing.T) {
	var all []v1alpha1.PolicyRefusal
	for i := range 20 {
		long := strings.Repeat(string([]rune{'\x1b', 'ü', '\u202e', 'x', '\x00'}[i%5]), 120<<10)
		all = append(all, v1alpha1.PolicyRefusal{Time: metav1.NewMicroTime(time.Unix(int64(i), 0)), Service: "ns/" + long, Message: fmt.Sprint(i, long)})
	}
	got := fold(all)
	text, err := json.Marshal(got)
	if err != nil || len(got) != remembered || len(text) > 8<<10 {
		t.Errorf("%d refusals, %d bytes: %v", len(got), len(text), err)
	}
	for _, r := range got {
		if utf8.RuneCountInString(r.Message) > messageLimit || utf8.RuneCountInString(r.Service) > serviceLimit || strings.ContainsAny(r.Message+r.Service, "\x1b\x00\u202e") {
			t.Errorf("kept is %.80q of %.80q", r.Message, r.Service)
		}
	}
}
