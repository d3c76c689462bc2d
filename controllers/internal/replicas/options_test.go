package replicas

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestIdentityFitsTheNameOfAnObject(t *testing.T) {
	for name, tc := range map[string]struct{ identity, want string }{
		"of a pod":                       {"clusterip-operator-7d4b9-x2x1z", "clusterip-operator-7d4b9-x2x1z"},
		"of a host":                      {"Node1.Example.com_0b9c", "node1-example-com-0b9c"},
		"nothing":                        {"", "replica"},
		"nothing that could be used":     {"...", "replica"},
		"in other letters":               {"größe", "gr--e"},
		"longer than names may be":       {strings.Repeat("x", 300), strings.Repeat("x", 200)},
		"whose end tells it from others": {strings.Repeat("x", 300) + "-1", strings.Repeat("x", 198) + "-1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sanitise(tc.identity); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			a, b := uniqueID(tc.identity), uniqueID(tc.identity)
			if problems := validation.IsDNS1123Subdomain(namePrefix + a); len(problems) > 0 {
				t.Errorf("%q is no name: %v", a, problems)
			}
			if a == b {
				t.Errorf("two processes are both %q", a)
			}
		})
	}
}

func TestOptionsHaveDefaults(t *testing.T) {
	o := Options{Duration: time.Hour}.withDefaults()
	if o.Clock == nil || o.Duration != time.Minute || o.Renew != 3*time.Second || o.Settle != 8*time.Second {
		t.Errorf("got %+v", o)
	}
}
