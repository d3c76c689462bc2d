package migrate

import (
	"errors"
	"net/netip"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

// unasked is an API server that is there and is never asked.
type unasked struct{ client.Client }

func TestTellRollback(t *testing.T) {
	b, err := bitmap.New(netip.MustParsePrefix("10.0.0.0/24"))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Add(netip.MustParseAddr("10.0.0.1")); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		r    migration.Rollback
		want string
	}{
		"nothing":  {},
		"a bitmap": {migration.Rollback{Bitmaps: []migration.RebuiltBitmap{{Key: "ranges/serviceips", Bitmap: b, Set: 1, Cleared: 2}}}, "ranges/serviceips (10.0.0.0/24): 1 addresses; 1 bits to set, 2 to clear\n"},
		"a broken one": {
			migration.Rollback{Bitmaps: []migration.RebuiltBitmap{{Key: "ranges/serviceips", Bitmap: b, Set: 1, Broken: errors.New("it is damaged")}}},
			"ranges/serviceips (10.0.0.0/24): 1 addresses; 1 bits to set, 0 to clear; the old value is replaced: it is damaged\n",
		},
		"objects":      {migration.Rollback{Rewrites: 3}, "3 IPAddresses and ServiceCIDRs to be stored as networking.k8s.io/v1beta1, which 1.32 can read\n"},
		"reservations": {migration.Rollback{Reserved: []netip.Addr{netip.MustParseAddr("10.0.0.8"), netip.MustParseAddr("10.0.0.9")}}, "2 IPAddresses have no Service, 10.0.0.8 first; a bitmap cannot keep them, so these addresses become free\n"},
		"refused": {
			migration.Rollback{Refused: []migration.Finding{plugintest.Found(migration.OutOfRange, "192.0.2.1", "Service ns/a")}},
			"\n\nOutOfRange (1)\n  what follows from OutOfRange.\n  192.0.2.1   Service ns/a   \n  plan: do something\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &plugintest.Printed{}
			(&command{Streams: p.Streams()}).tellRollback(tc.r)
			plugintest.MustPrint(t, p.Out.String(), tc.want)
		})
	}
}

// Without --live, nothing is done beside an API server that it would undo, or that would hurt it.
func TestRollbackPermitted(t *testing.T) {
	safe := migration.Rollback{Snapshot: migration.Snapshot{Allocator: migration.AllocatorBitmap}, Bitmaps: []migration.RebuiltBitmap{{Set: 1}}}
	risky := safe
	risky.Bitmaps = []migration.RebuiltBitmap{{Cleared: 1}}
	flipped := migration.Rollback{Snapshot: migration.Snapshot{Allocator: migration.AllocatorIPAddresses}}
	for name, tc := range map[string]struct {
		live, served bool
		r            migration.Rollback
		want         bool
	}{
		"bits to set":                         {r: safe, want: true},
		"bits to clear":                       {r: risky},
		"bits to clear, the admin insists":    {r: risky, live: true, want: true},
		"it allocates from IPAddresses":       {r: flipped, served: true},
		"it does, and the admin insists":      {r: flipped, served: true, live: true, want: true},
		"it serves them and needs the bitmap": {r: safe, served: true, want: true},
	} {
		l := &Link{Sources: migration.Sources{API: unasked{}, Served: tc.served}}
		if err := (rollingBack{live: tc.live}).permitted(t.Context(), l, tc.r); (err == nil) != tc.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
