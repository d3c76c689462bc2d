package migration

import (
	"strings"
	"testing"
)

// The key of a step is what it does to which object for whom. When the object has changed in between it is the same work still;
// when it is another object it is not.
func TestKeyOfAStep(t *testing.T) {
	s := Step{Do: ReplaceIPAddress, Address: addr("10.0.0.5"), Service: "ns/a", UID: "u", ResourceVersion: "7"}
	same := s
	same.ResourceVersion = "8"
	if s.key() != same.key() {
		t.Error("a change of the object makes it another step")
	}
	for what, other := range map[string]Step{
		"action":  {Do: DeleteIPAddress, Address: s.Address, Service: s.Service, UID: s.UID},
		"address": {Do: s.Do, Address: addr("10.0.0.6"), Service: s.Service, UID: s.UID},
		"Service": {Do: s.Do, Address: s.Address, Service: "ns/b", UID: s.UID},
		"object":  {Do: s.Do, Address: s.Address, Service: s.Service, UID: "v"},
		"bitmap":  {Do: s.Do, Address: s.Address, Service: s.Service, UID: s.UID, Key: KeyPrimary},
	} {
		if s.key() == other.key() {
			t.Errorf("a step with another %s is taken for the same", what)
		}
	}
}

// TestValidate: what a step lacks that somebody has edited.
func TestValidate(t *testing.T) {
	a, svc := addr("10.0.0.5"), "ns/a"
	for name, tc := range map[string]struct {
		s    Step
		want string // a piece of the error; "" for none
	}{
		"a creation":                   {s: Step{Do: CreateIPAddress, Address: a, Service: svc}},
		"a creation for nobody":        {s: Step{Do: CreateIPAddress, Address: a}, want: "needs the Service"},
		"a creation of nothing":        {s: Step{Do: CreateIPAddress, Service: svc}, want: "an address"},
		"a deletion of whatever is":    {s: Step{Do: DeleteIPAddress, Address: a, UID: "u"}, want: "resourceVersion"},
		"a deletion of whoever it is":  {s: Step{Do: DeleteIPAddress, Address: a, ResourceVersion: "7"}, want: "uid"},
		"a replacement for nobody":     {s: Step{Do: ReplaceIPAddress, Address: a, UID: "u", ResourceVersion: "7"}, want: "needs the Service"},
		"labels of whatever is":        {s: Step{Do: RelabelIPAddress, Address: a, Service: svc}, want: "resourceVersion"},
		"a ServiceCIDR":                {s: Step{Do: CreateServiceCIDR, CIDRs: nets("10.0.0.0/24")}},
		"a ServiceCIDR without ranges": {s: Step{Do: CreateServiceCIDR}, want: "cidrs"},
		"ranges without a ServiceCIDR": {s: Step{Do: CreateIPAddress, Address: a, Service: svc, CIDRs: nets("10.0.0.0/24")}, want: "cidrs"},
		"another ServiceCIDR for any":  {s: Step{Do: ReplaceServiceCIDR, CIDRs: nets("10.0.0.0/24")}, want: "uid"},
		"a repair":                     {s: Step{Do: RepairBitmap, Key: KeyPrimary}},
		"a repair of nothing":          {s: Step{Do: RepairBitmap}, want: "key"},
		"a repair of an address":       {s: Step{Do: RepairBitmap, Key: KeyPrimary, Address: a}, want: "an address"},
		"something unheard of":         {s: Step{Do: "Tickle"}, want: `no action "Tickle"`},
		"nothing":                      {want: "no action"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.s.validate()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want something about %q", err, tc.want)
			}
		})
	}
}
