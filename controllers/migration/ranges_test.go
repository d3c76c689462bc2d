package migration

import (
	"errors"
	"testing"
)

// What tells the range of the API server, and what does not.
func TestRanges(t *testing.T) {
	v4, v6 := aBitmap(KeyPrimary, "10.0.0.0/24", "10.0.0.1"), aBitmap(KeySecondary, "fd00::/112", "fd00::1")
	under := func(key string, b StoredBitmap) StoredBitmap { b.Key = key; return b }
	apiServer := func(ips ...string) Service {
		s := aService("kubernetes", ips...)
		s.Name.Namespace = "default"
		return s
	}
	dual := []Service{apiServer("10.0.0.1"), aService("a", "10.0.0.2", "fd00::2")}
	all := []ServiceCIDR{aCIDR("kubernetes", "10.0.0.0/24,fd00::/112")}

	for name, tc := range map[string]struct {
		w    Snapshot
		want string
		// wantPlaced: what is found to be wrong with the bitmaps and the default ServiceCIDR.
		wantWrong []string
	}{
		"nothing tells":           {w: Snapshot{}, wantWrong: []string{"DefaultServiceCIDRMissing (ServiceCIDR kubernetes)"}},
		"two bitmaps, IPv6 first": {w: Snapshot{Bitmaps: []StoredBitmap{under(KeyPrimary, v6), under(KeySecondary, v4)}, ServiceCIDRs: []ServiceCIDR{aCIDR("kubernetes", "fd00::/112,10.0.0.0/24")}}, want: "fd00::/112,10.0.0.0/24"},
		"the bitmaps before the ServiceCIDR": {
			w:    Snapshot{Bitmaps: []StoredBitmap{v4}, ServiceCIDRs: []ServiceCIDR{aCIDR("kubernetes", "10.7.0.0/24")}},
			want: "10.0.0.0/24", wantWrong: []string{"DefaultServiceCIDRWrong (ServiceCIDR kubernetes)"},
		},
		"the ServiceCIDR, where bitmaps are leftovers": {
			w:    Snapshot{Allocator: AllocatorIPAddresses, Bitmaps: []StoredBitmap{v4}, ServiceCIDRs: []ServiceCIDR{aCIDR("kubernetes", "10.7.0.0/24")}},
			want: "10.7.0.0/24", wantWrong: []string{"StaleBitmap (ranges/serviceips)"},
		},
		"the ServiceCIDR, where a bitmap cannot be read": {
			w:    Snapshot{Bitmaps: []StoredBitmap{v4, broken(KeySecondary, errors.New("broken"))}, ServiceCIDRs: all},
			want: "10.0.0.0/24,fd00::/112", wantWrong: []string{"BitmapUnreadable (ranges/secondaryserviceips)"},
		},
		"the admin tells": {
			w:    Snapshot{Given: nets("10.0.0.0/24,fd00::/112"), Bitmaps: []StoredBitmap{v4, v6}, ServiceCIDRs: all},
			want: "10.0.0.0/24,fd00::/112",
		},
		"the admin tells one family": {
			w: Snapshot{Given: nets("10.0.0.0/24"), Bitmaps: []StoredBitmap{v4, v6}, ServiceCIDRs: all}, want: "10.0.0.0/24",
			wantWrong: []string{"BitmapForeignRange (ranges/secondaryserviceips)", "DefaultServiceCIDRWrong (ServiceCIDR kubernetes)"},
		},
		"the admin tells another range": {
			w: Snapshot{Given: nets("10.0.0.0/16"), Bitmaps: []StoredBitmap{v4}, ServiceCIDRs: []ServiceCIDR{aCIDR("kubernetes", "10.0.0.0/16")}}, want: "10.0.0.0/16",
			wantWrong: []string{"BitmapForeignRange (ranges/serviceips)"},
		},
		"the admin tells it the other way around": {
			w: Snapshot{Given: nets("fd00::/112,10.0.0.0/24"), Bitmaps: []StoredBitmap{v4, v6}, ServiceCIDRs: all}, want: "fd00::/112,10.0.0.0/24",
			wantWrong: []string{
				"SecondaryRangeMislabelled (ServiceCIDR kubernetes)",
				"SecondaryRangeMislabelled (ranges/secondaryserviceips)", "SecondaryRangeMislabelled (ranges/serviceips)",
			},
		},
		"the admin tells what only the secondary bitmap is left of": {
			w:    Snapshot{Given: nets("10.0.0.0/24,fd00::/112"), Revision: 11, Bitmaps: []StoredBitmap{v6}, ServiceCIDRs: all},
			want: "10.0.0.0/24,fd00::/112", wantWrong: []string{"BitmapMissing (ranges/serviceips)"},
		},
		"only the secondary bitmap is left, the ServiceCIDR knows": {
			w: Snapshot{Bitmaps: []StoredBitmap{v6}, Services: dual, ServiceCIDRs: all}, want: "10.0.0.0/24,fd00::/112",
			wantWrong: []string{"MissingBit fd00::2 (Service ns/a)"},
		},
		"only the primary bitmap is left, a Service has the other family": {
			w: Snapshot{Revision: 11, Bitmaps: []StoredBitmap{aBitmap(KeyPrimary, "10.0.0.0/24", "10.0.0.1", "10.0.0.2")}, Services: dual, ServiceCIDRs: all}, want: "10.0.0.0/24,fd00::/112",
			wantWrong: []string{"BitmapMissing (ranges/secondaryserviceips)"},
		},
		"each bitmap under the key of the other": {
			w: Snapshot{Bitmaps: []StoredBitmap{under(KeyPrimary, v6), under(KeySecondary, v4)}, Services: dual, ServiceCIDRs: all}, want: "10.0.0.0/24,fd00::/112",
			wantWrong: []string{"SecondaryRangeMislabelled (ranges/secondaryserviceips)", "SecondaryRangeMislabelled (ranges/serviceips)"},
		},
		"two bitmaps of one family": {
			w: Snapshot{Bitmaps: []StoredBitmap{v4, aBitmap(KeySecondary, "10.0.1.0/24")}, ServiceCIDRs: all}, want: "10.0.0.0/24,fd00::/112",
			wantWrong: []string{"SecondaryRangeMislabelled (ranges/secondaryserviceips)", "SecondaryRangeMislabelled (ranges/serviceips)"},
		},
		"a primary bitmap in which the API server's own Service is not first": {
			w:    Snapshot{Bitmaps: []StoredBitmap{aBitmap(KeyPrimary, "10.0.0.0/16", "10.0.0.2")}, Services: []Service{apiServer("10.0.1.1")}, ServiceCIDRs: []ServiceCIDR{aCIDR("kubernetes", "10.0.1.0/24")}},
			want: "10.0.1.0/24", wantWrong: []string{"BitmapForeignRange (ranges/serviceips)"},
		},
		"a secondary bitmap in which no Service is": {
			w:    Snapshot{Bitmaps: []StoredBitmap{aBitmap(KeyPrimary, "10.0.0.0/24", "10.0.0.1", "10.0.0.2"), aBitmap(KeySecondary, "fd77::/112")}, Services: dual, ServiceCIDRs: all},
			want: "10.0.0.0/24,fd00::/112", wantWrong: []string{"BitmapForeignRange (ranges/secondaryserviceips)"},
		},
		"a secondary bitmap of a family that no Service has": {
			w:    Snapshot{Bitmaps: []StoredBitmap{aBitmap(KeyPrimary, "10.0.0.0/24", "10.0.0.1"), aBitmap(KeySecondary, "fd77::/112")}, Services: dual[:1], ServiceCIDRs: []ServiceCIDR{aCIDR("kubernetes", "10.0.0.0/24,fd77::/112")}},
			want: "10.0.0.0/24,fd77::/112",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPlan(tc.w, Options{})
			if got := prefixes(p.Ranges); got != tc.want {
				t.Errorf("the range is %q, want %q", got, tc.want)
			}
			var wrong []string
			for _, f := range p.Findings {
				if f.Kind != IPAddressMissing && f.Kind != LeakedBit {
					wrong = append(wrong, findingText(f))
				}
			}
			mustEqual(t, "found", wrong, tc.wantWrong)
		})
	}
}
