package operation

import (
	"testing"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

func TestWorked(t *testing.T) {
	const done = `controller_runtime_reconcile_total{controller="ipaddress",result="success"} 900
controller_runtime_reconcile_total{controller="ipaddress",result="requeue_after"} 100
controller_runtime_reconcile_total{controller="service",result="success"} 5
`
	for name, tc := range map[string]struct {
		text string
		n    int
		want bool
	}{
		"all results count":      {done, 1000, true},
		"too few":                {done, 1001, false},
		"one waits in the queue": {done + `workqueue_depth{controller="ipaddress",name="ipaddress",priority="0"} 1` + "\n", 1000, false},
		"one is being worked on": {done + `controller_runtime_active_workers{controller="ipaddress"} 1` + "\n", 1000, false},
		"another's queue":        {done + `workqueue_depth{controller="bandlabel",name="bandlabel",priority="0"} 1` + "\n", 1000, true},
	} {
		t.Run(name, func(t *testing.T) {
			figures, err := framework.ParseMetrics(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := worked(figures, "ipaddress", tc.n); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
