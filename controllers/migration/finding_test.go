package migration

import (
	"slices"
	"strings"
	"testing"
)

// TestKinds compares kinds with what commands promise: which an API server on IPAddresses minds
// (verify), and which leave something untold (exit status 2).
func TestKinds(t *testing.T) {
	calm := []Kind{LeakedBit, MissingBit, BitmapMissing, BitmapEmpty, BitmapUnreadable, BitmapEncrypted, BitmapForeignRange, StaleBitmap}
	untold := []Kind{ObjectUnreadable, BitmapEncrypted, RangeContradicted}
	for _, info := range kinds {
		k, f := info.kind, Finding{Kind: info.kind}
		if got, want := f.StopsFlip(), !slices.Contains(calm, k); got != want {
			t.Errorf("%s stops the flip: %v, want %v", k, got, want)
		}
		if got, want := f.Unknown(), slices.Contains(untold, k); got != want {
			t.Errorf("%s leaves something untold: %v, want %v", k, got, want)
		}
		if got, want := f.Counts(), k != StaleBitmap; got != want {
			t.Errorf("%s counts: %v, want %v", k, got, want)
		}
	}
}

// Reports list what blocks first, then by kind and address, in the order of addresses, not texts.
func TestOrderOfFindings(t *testing.T) {
	all := []Finding{
		{Kind: LeakedBit, Address: addr("10.0.0.10")}, {Kind: LeakedBit, Address: addr("fd00::1")}, {Kind: LeakedBit, Address: addr("10.0.0.9")},
		{Kind: IPAddressMissing, Address: addr("10.0.0.1")}, {Kind: ObjectUnreadable, Objects: []string{"b"}}, {Kind: ObjectUnreadable, Objects: []string{"a"}},
	}
	explain(all)
	mustEqual(t, "order", textsOf(all, findingText), []string{
		"ObjectUnreadable (a)", "ObjectUnreadable (b)", "IPAddressMissing 10.0.0.1", "LeakedBit 10.0.0.9", "LeakedBit 10.0.0.10", "LeakedBit fd00::1",
	})
	for _, f := range all {
		if f.Means == "" {
			t.Errorf("%s is not explained", findingText(f))
		}
	}
}

// TestValidate: what a step lacks that an admin has edited.
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
