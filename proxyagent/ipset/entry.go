package ipset

import (
	"fmt"
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Entry is one entry of a set. Fields that its type does not use are zero, so that entries compare:
//
//	HashIP         Addr
//	HashIPPort     Addr, Protocol, Port
//	HashIPPortIP   Addr, Protocol, Port, Source of full length
//	HashIPPortNet  Addr, Protocol, Port, Source of any length but zero
//	BitmapPort     Port
type Entry struct {
	Addr     netip.Addr
	Protocol model.Protocol
	Port     uint16
	// Source is what the third part matches. Bits behind its length are zero.
	Source netip.Prefix
}

// String returns the entry as the ipset program writes it.
func (e Entry) String() string {
	switch {
	case !e.Addr.IsValid():
		return fmt.Sprint(e.Port)
	case e.Protocol == 0:
		return e.Addr.String()
	case !e.Source.IsValid():
		return fmt.Sprintf("%v,%v:%d", e.Addr, e.Protocol, e.Port)
	case e.Source.IsSingleIP():
		return fmt.Sprintf("%v,%v:%d,%v", e.Addr, e.Protocol, e.Port, e.Source.Addr())
	default:
		return fmt.Sprintf("%v,%v:%d,%v", e.Addr, e.Protocol, e.Port, e.Source)
	}
}

// Change puts an entry into a set or takes it out.
type Change struct {
	Set    string
	Entry  Entry
	Delete bool
}

// bytesPerEntry is the most that an entry takes in a message, maxBatch how many are in one: an
// attribute has less than 64 KiB, and the kernel holds up other requests while it works on one.
const (
	bytesPerEntry = 80
	maxBatch      = 32 * 1024 / bytesPerEntry
)

// batch is what one message does: entries of one set that all come or all go.
type batch struct {
	set     string
	delete  bool
	entries []Entry
}

// batches puts changes that follow each other into one message where it can hold them.
func batches(changes []Change) []batch {
	var all []batch
	for _, c := range changes {
		if n := len(all) - 1; n >= 0 && all[n].set == c.Set && all[n].delete == c.Delete && len(all[n].entries) < maxBatch {
			all[n].entries = append(all[n].entries, c.Entry)
			continue
		}
		all = append(all, batch{set: c.Set, delete: c.Delete, entries: []Entry{c.Entry}})
	}
	return all
}
