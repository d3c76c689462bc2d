package migration

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestDestroys(t *testing.T) {
	destroys := map[Action]bool{ReplaceServiceCIDR: true, ReplaceIPAddress: true, DeleteIPAddress: true, RepairBitmap: true}
	for _, do := range Actions {
		if got := (Step{Do: do}).Destroys(); got != destroys[do] {
			t.Errorf("%s destroys: %v", do, got)
		}
	}
	if len(Actions) != 7 {
		t.Errorf("there are %d actions", len(Actions))
	}
}

// The key of a step is what it does to which object for whom. When the object has changed in between it is the same work still;
// when it is another object it is not.
func TestKeyOfAStep(t *testing.T) {
	s := Step{Do: ReplaceIPAddress, Address: addr("10.0.0.5"), Service: NamespacedName(nsName("a")), UID: "u", ResourceVersion: "7"}
	same := s
	same.ResourceVersion = "8"
	if s.key() != same.key() {
		t.Error("a change of the object makes it another step")
	}
	for what, other := range map[string]Step{
		"action":  {Do: DeleteIPAddress, Address: s.Address, Service: s.Service, UID: s.UID},
		"address": {Do: s.Do, Address: addr("10.0.0.6"), Service: s.Service, UID: s.UID},
		"Service": {Do: s.Do, Address: s.Address, Service: NamespacedName(nsName("b")), UID: s.UID},
		"object":  {Do: s.Do, Address: s.Address, Service: s.Service, UID: "v"},
		"bitmap":  {Do: s.Do, Address: s.Address, Service: s.Service, UID: s.UID, Key: KeyPrimary},
	} {
		if s.key() == other.key() {
			t.Errorf("a step with another %s is taken for the same", what)
		}
	}
}

func TestWhatAStepIsAbout(t *testing.T) {
	for want, s := range map[string]Step{
		"10.0.0.5": {Do: CreateIPAddress, Address: addr("10.0.0.5")}, KeyPrimary: {Do: RepairBitmap, Key: KeyPrimary}, "kubernetes": {Do: CreateServiceCIDR},
	} {
		if got := s.What(); got != want {
			t.Errorf("%s is about %s, want %s", s.Do, got, want)
		}
	}
}

// A revision that cannot be read is 0: nothing but a key that does not exist passes that guard.
func TestRevisionOfAStep(t *testing.T) {
	for text, want := range map[string]int64{"7": 7, "": 0, "x": 0, "9007199254740993": 9007199254740993} {
		if got := (Step{ResourceVersion: text}).revision(); got != want {
			t.Errorf("resourceVersion %q is revision %d", text, got)
		}
	}
}

func TestNamespacedName(t *testing.T) {
	for _, text := range []string{`"ns/a"`, `""`} {
		var n NamespacedName
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := string(must(json.Marshal(n))); got != text {
			t.Errorf("%s becomes %s", text, got)
		}
	}
	for _, text := range []string{`"a"`, `"/a"`, `"ns/"`, `"/"`} {
		var n NamespacedName
		if err := json.Unmarshal([]byte(text), &n); err == nil || !strings.Contains(err.Error(), "namespace/name") {
			t.Errorf("%s is read as %v, %v", text, n, err)
		}
	}
}

// TestValidate: what a step lacks that somebody has edited.
func TestValidate(t *testing.T) {
	a, svc := addr("10.0.0.5"), NamespacedName(nsName("a"))
	for name, tc := range map[string]struct {
		s    Step
		want string // a piece of the error; "" for none
	}{
		"a creation":                   {s: Step{Do: CreateIPAddress, Address: a, Service: svc}},
		"a creation for nobody":        {s: Step{Do: CreateIPAddress, Address: a}, want: "needs the Service"},
		"a creation of nothing":        {s: Step{Do: CreateIPAddress, Service: svc}, want: "an address"},
		"a deletion":                   {s: Step{Do: DeleteIPAddress, Address: a, UID: "u", ResourceVersion: "7"}},
		"a deletion of whatever is":    {s: Step{Do: DeleteIPAddress, Address: a, UID: "u"}, want: "resourceVersion"},
		"a deletion of whoever it is":  {s: Step{Do: DeleteIPAddress, Address: a, ResourceVersion: "7"}, want: "uid"},
		"a replacement for nobody":     {s: Step{Do: ReplaceIPAddress, Address: a, UID: "u", ResourceVersion: "7"}, want: "needs the Service"},
		"labels":                       {s: Step{Do: RelabelIPAddress, Address: a, Service: svc, UID: "u", ResourceVersion: "7"}},
		"labels of whatever is":        {s: Step{Do: RelabelIPAddress, Address: a, Service: svc}, want: "resourceVersion"},
		"a ServiceCIDR":                {s: Step{Do: CreateServiceCIDR, CIDRs: nets("10.0.0.0/24")}},
		"a ServiceCIDR without ranges": {s: Step{Do: CreateServiceCIDR}, want: "cidrs"},
		"ranges without a ServiceCIDR": {s: Step{Do: CreateIPAddress, Address: a, Service: svc, CIDRs: nets("10.0.0.0/24")}, want: "cidrs"},
		"another ServiceCIDR":          {s: Step{Do: ReplaceServiceCIDR, CIDRs: nets("10.0.0.0/24"), UID: "u", ResourceVersion: "7"}},
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

// Whatever a plan wants can be read back from a file.
func TestPlansAreValid(t *testing.T) {
	for seed := range uint64(500) {
		for _, s := range NewPlan(randomFixture(seeded(seed), 5).Snapshot, Options{RepairBitmap: true}).Steps {
			if err := s.validate(); err != nil {
				t.Fatalf("seed %d: %s: %v", seed, stepText(s), err)
			}
		}
	}
}
