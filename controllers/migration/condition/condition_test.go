package condition

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// summary is a condition in a line.
func summary(c *metav1.Condition) string {
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

const (
	inProgress = "False InProgress: 3 of 5 ClusterIPs have their IPAddress."
	inTheWay   = "False InProgress: 5 of 5 ClusterIPs have their IPAddress; `kubectl clusterip migrate verify` names what else is in the way."
	ready      = "True ReadyToFlip: Every ClusterIP has its IPAddress: an API server that allocates from IPAddresses finds nothing to repair."
	flipped    = "True Flipped: The API servers allocate from IPAddresses."
)

// TestDecide goes through the phases of a migration, forth and back. An empty want is no write.
func TestDecide(t *testing.T) {
	there := func(c metav1.Condition) *metav1.Condition {
		c.LastTransitionTime, c.ObservedGeneration = metav1.Now(), 7 // neither is a reason to write
		return &c
	}
	for name, tc := range map[string]struct {
		w    inputs
		want string
	}{
		"the migration begins":                         {w: inputs{bitmap: true, covered: 3, claimed: 5}, want: inProgress},
		"nothing has changed":                          {w: inputs{bitmap: true, covered: 3, claimed: 5, now: there(Counted(3, 5, 0))}},
		"one more has its IPAddress":                   {w: inputs{bitmap: true, covered: 3, claimed: 5, now: there(Counted(2, 5, 0))}, want: inProgress},
		"one more Service came":                        {w: inputs{bitmap: true, covered: 3, claimed: 5, now: there(Counted(3, 4, 0))}, want: inProgress},
		"every ClusterIP has its own":                  {w: inputs{bitmap: true, covered: 5, claimed: 5, now: there(Counted(4, 5, 0))}, want: ready},
		"as it was, ready":                             {w: inputs{bitmap: true, covered: 6, claimed: 6, now: there(Counted(5, 5, 0))}},
		"one is lost again":                            {w: inputs{bitmap: true, covered: 3, claimed: 5, now: there(Counted(5, 5, 0))}, want: inProgress},
		"the default ServiceCIDR is wrong":             {w: inputs{bitmap: true, covered: 5, claimed: 5, others: 1, now: there(Counted(5, 5, 0))}, want: inTheWay},
		"an empty cluster":                             {w: inputs{bitmap: true}, want: ready},
		"flipped":                                      {w: inputs{covered: 5, claimed: 5, now: there(Counted(5, 5, 0))}, want: flipped},
		"flipped too early":                            {w: inputs{covered: 3, claimed: 5, now: there(Counted(3, 5, 0))}, want: flipped},
		"as it was, flipped":                           {w: inputs{covered: 5, claimed: 5, now: there(Flipped())}},
		"finalized by the command":                     {w: inputs{now: there(Finalized())}},
		"a cluster that never allocated from a bitmap": {w: inputs{covered: 5, claimed: 5}},
		"rolled back":                                  {w: inputs{bitmap: true, covered: 5, claimed: 5, now: there(Flipped())}, want: ready},
		"rolled back after finalize":                   {w: inputs{bitmap: true, covered: 3, claimed: 5, now: there(Finalized())}, want: inProgress},
		"somebody has turned the status":               {w: inputs{now: there(metav1.Condition{Status: "False", Reason: "Flipped", Message: Flipped().Message})}, want: flipped},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(tc.w)
			if diff := cmp.Diff(tc.want, summary(got)); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
			if got == nil {
				return
			}
			if got.Type != v1alpha1.ConditionMigrated {
				t.Errorf("its type is %s", got.Type)
			}
			tc.w.now = got
			if again := decide(tc.w); again != nil {
				t.Errorf("it writes %s after %s", summary(again), summary(got))
			}
		})
	}
}
