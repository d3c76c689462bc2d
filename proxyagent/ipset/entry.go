package ipset

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Entry is one entry of a set. Fields that the type of the set does not use are zero, so that entries may be compared:
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
	// Source is what the third part matches. Bits behind its length do not count, and are zero when read back.
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

// check returns what is wrong with e, before the kernel refuses it with less detail.
func (e Entry) check() error {
	switch {
	case e.Source.IsValid() && e.Source.Bits() == 0:
		return fmt.Errorf("a set cannot hold the network %v, which is everything: %w", e.Source, ErrEntry)
	case e.Source.IsValid() && model.FamilyOf(e.Source.Addr()) != model.FamilyOf(e.Addr):
		return fmt.Errorf("address and source are not of one family: %w", ErrEntry)
	case e.Addr.IsUnspecified():
		return fmt.Errorf("a set cannot hold the address zero: %w", ErrEntry)
	case e.Addr.Zone() != "":
		return fmt.Errorf("an address with a zone: %w", ErrEntry)
	case e.Addr.IsValid() && (e.Protocol == 0) != (e.Port == 0):
		return fmt.Errorf("of protocol and port, one is missing: %w", ErrEntry)
	case e.Addr.IsValid() && e.Protocol == 0 && e.Source.IsValid():
		return fmt.Errorf("a source without protocol and port: %w", ErrEntry)
	case e.Protocol != 0 && !slices.Contains(model.Protocols, e.Protocol):
		return fmt.Errorf("sets do not know the port of %v: %w", e.Protocol, ErrEntry)
	case !e.Addr.IsValid() && e.Protocol != 0:
		return fmt.Errorf("a protocol without an address: %w", ErrEntry)
	default:
		return nil
	}
}

// normal is e as the kernel gives it back.
func (e Entry) normal() Entry {
	if e.Source.IsValid() {
		e.Source = e.Source.Masked()
	}
	return e
}

// Change puts an entry into a set or takes it out.
type Change struct {
	Set    string
	Entry  Entry
	Delete bool
}

// bytesPerEntry is the most that an entry takes in a message, maxBatch how many entries are in one: an attribute has less than 64 KiB, and the
// kernel holds up other requests while it works on one.
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

// batches sorts changes into few messages. Of several changes of one entry the last counts. Sets come in the order in which the changes
// name them first, entries in theirs; in each set all that comes does so before anything goes, so that what replaces an entry is there
// before that leaves.
func batches(changes []Change) []batch {
	type key struct {
		set    string
		delete bool
	}
	var order []string
	last := make(map[Change]int, len(changes))
	for i, c := range changes {
		c.Delete = false
		last[c] = i
	}
	groups := make(map[key][]Entry)
	for i, c := range changes {
		plain := Change{Set: c.Set, Entry: c.Entry}
		if last[plain] != i {
			continue
		}
		if groups[key{c.Set, true}] == nil && groups[key{c.Set, false}] == nil {
			order = append(order, c.Set)
		}
		groups[key{c.Set, c.Delete}] = append(groups[key{c.Set, c.Delete}], c.Entry)
	}
	var all []batch
	for _, set := range order {
		for _, gone := range []bool{false, true} {
			all = append(all, chunks(batch{set: set, delete: gone, entries: groups[key{set, gone}]})...)
		}
	}
	return all
}

// chunks splits a batch so that each part fits into one attribute of a message.
func chunks(b batch) []batch {
	var parts []batch
	for from := 0; from < len(b.entries); from += maxBatch {
		to := min(from+maxBatch, len(b.entries))
		parts = append(parts, batch{set: b.set, delete: b.delete, entries: b.entries[from:to]})
	}
	return parts
}
