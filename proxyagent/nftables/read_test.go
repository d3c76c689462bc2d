//go:build linux

package nftables

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables/tables"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// TestADumpThatLeavesElementsOut reads a set just written, while the kernel makes more buckets for
// it: one of some hundred dumps lacks elements.
func TestADumpThatLeavesElementsOut(t *testing.T) {
	network.NeedIsolation(t)
	for f, first := range map[model.Family]string{model.IPv4: "10.0.0.1", model.IPv6: "fd00::1"} {
		t.Run(f.String(), func(t *testing.T) {
			k, err := open(f)
			if err != nil {
				t.Fatal(err)
			}
			defer k.close()
			for start := time.Now(); time.Since(start) < 2*time.Second; {
				_ = k.remove() // there is none the first time
				next, n := netip.MustParseAddr(first), 0
				for range 8 {
					more := 1 + rand.IntN(200)
					next, n = add(t, k, next, more), n+more
					if have, err := k.elements(t.Context(), "active", func(tables.Bucket) bool { return true }, nil); err != nil || len(have) != n {
						t.Fatalf("of %d elements it read %d, %v", n, len(have), err)
					}
				}
			}
		})
	}
}

// add adds elements to a set, which it makes if needed, and returns the address after the last one.
func add(t *testing.T, k *kernel, next netip.Addr, n int) netip.Addr {
	t.Helper()
	var more []nftables.SetElement
	for range n {
		more, next = append(more, nftables.SetElement{Key: next.AsSlice()}), next.Next()
	}
	k.conn.AddTable(k.table)
	if err := k.conn.AddSet(k.set("active"), more); err != nil {
		t.Fatal(err)
	}
	if err := k.flush(); err != nil {
		t.Fatal(err)
	}
	return next
}
