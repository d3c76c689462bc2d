package migration

import (
	"slices"
	"strings"
	"testing"
)

// TestKinds holds the table of kinds to what the commands promise: which of them an API server that allocates from IPAddresses minds
// (verify), and which leave something untold (exit status 2).
func TestKinds(t *testing.T) {
	all := []Kind{
		LeakedBit, MissingBit, DuplicateClusterIP, OutOfRange, InvalidClusterIP, MisspeltClusterIP, RangeContradicted, IPAddressMissing, IPAddressOrphan, IPAddressWrongParent,
		IPAddressWrongLabels, IPAddressForeign, DefaultServiceCIDRMissing, DefaultServiceCIDRWrong, SecondaryRangeMislabelled,
		BitmapMissing, BitmapEmpty, BitmapUnreadable, BitmapEncrypted, BitmapForeignRange, StaleBitmap, ObjectUnreadable,
	}
	calm := []Kind{LeakedBit, MissingBit, BitmapMissing, BitmapEmpty, BitmapUnreadable, BitmapEncrypted, BitmapForeignRange, StaleBitmap}
	untold := []Kind{ObjectUnreadable, BitmapEncrypted, RangeContradicted}
	if len(all) != len(kinds) {
		t.Errorf("%d kinds, and %d in the table", len(all), len(kinds))
	}
	for _, k := range all {
		f := Finding{Kind: k}
		if got, want := f.StopsFlip(), !slices.Contains(calm, k); got != want {
			t.Errorf("%s stops the flip: %v, want %v", k, got, want)
		}
		if got, want := f.Unknown(), slices.Contains(untold, k); got != want {
			t.Errorf("%s leaves something untold: %v, want %v", k, got, want)
		}
		if got, want := f.Counts(), k != StaleBitmap; got != want {
			t.Errorf("%s counts: %v, want %v", k, got, want)
		}
		if means := kinds[k.rank()].means; !strings.HasSuffix(means, ".") {
			t.Errorf("%s means %q, which is no sentence", k, means)
		}
	}
}

// Reports list what blocks first, then by kind and address, as addresses are ordered and not their texts.
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
