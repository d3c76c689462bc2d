package proxy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

func TestNotesOfIPVS(t *testing.T) {
	measured := func(n int, theirs time.Duration, messages int) Case {
		return Case{Shape: Shape{Family: model.IPv4, Services: n, Endpoints: endpoints}, Figures: map[string]*Figures{
			oursIPVS: {Cold: time.Second, Messages: messages}, theirsIPVS: {Cold: theirs},
		}}
	}
	for name, tc := range map[string]struct {
		large Case
		want  []string
	}{
		"both reached": {measured(10_000, 2*time.Second, 9), []string{
			"Target reached: cold start with 1,000 x 3: ours at most half of the time of kube-proxy (3.00x).",
			"Target reached: cold start with 10,000 x 3: ours at most half of the time of kube-proxy (2.00x).",
			"Target reached: messages for one change: with 10,000 x 3 as many as with fewer Services (9).",
		}},
		"both missed": {measured(10_000, 1900*time.Millisecond, 10), []string{
			"Target reached: cold start with 1,000 x 3: ours at most half of the time of kube-proxy (3.00x).",
			"Target missed: cold start with 10,000 x 3: ours at most half of the time of kube-proxy (1.90x).",
			"Target missed: messages for one change: with 10,000 x 3 as many as with fewer Services (10).",
		}},
	} {
		r := OnMachine{Result{Options: FullIPVS(), Cases: []Case{measured(1_000, 3*time.Second, 9), tc.large}}}
		if diff := cmp.Diff(tc.want, r.Notes()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
