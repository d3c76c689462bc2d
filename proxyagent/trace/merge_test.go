package trace

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// possible is a flow with a mark, a share and conditions like "+1-2".
func possible(mark uint32, share float64, conditions string) flow {
	f := flow{state: state{mark: mark}, share: share}
	for i := 0; i+1 < len(conditions); i += 2 {
		f.ifs = f.ifs.with(int(conditions[i+1]-'0'), conditions[i] == '+')
	}
	return f
}

func TestPossibilitiesThatAreEqualAgainBecomeOne(t *testing.T) {
	for name, tc := range map[string]struct {
		flows []flow
		want  string
	}{
		"shares add up":             {[]flow{possible(1, 0.25, ""), possible(1, 0.5, "")}, "1: 0.75"},
		"different packets stay":    {[]flow{possible(1, 0.25, ""), possible(2, 0.5, "")}, "1: 0.25, 2: 0.5"},
		"what does not matter goes": {[]flow{possible(1, 1, "+1"), possible(1, 1, "-1")}, "1: 1"},
		"not for different packets": {[]flow{possible(1, 1, "+1"), possible(2, 1, "-1")}, "1: 1 +1, 2: 1 -1"},
		"not for different shares":  {[]flow{possible(1, 1, "+1"), possible(1, 0.5, "-1")}, "1: 0.5 -1, 1: 1 +1"},
		"two of them": {
			[]flow{possible(1, 1, "+1+2"), possible(1, 1, "-1+2"), possible(1, 1, "+1-2"), possible(1, 1, "-1-2")}, "1: 1",
		},
		"the second of two":           {[]flow{possible(1, 1, "+1+2"), possible(1, 1, "+1-2")}, "1: 1 +1"},
		"none is used twice":          {[]flow{possible(1, 1, "+1+2"), possible(1, 1, "-1+2"), possible(1, 1, "+1-2")}, "1: 1 +1-2, 1: 1 +2"},
		"conditions of chance add up": {[]flow{possible(1, 0.5, "+1"), possible(1, 0.5, "+1"), possible(1, 1, "-1")}, "1: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range merge(tc.flows) {
				conditions := ""
				for _, c := range f.ifs {
					conditions += fmt.Sprintf("%s%d", map[bool]string{true: "+", false: "-"}[c.holds], c.number)
				}
				got = append(got, strings.TrimSpace(fmt.Sprintf("%d: %v %s", f.mark, f.share, conditions)))
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("possibilities (-want +got):\n%s", diff)
			}
		})
	}
}
