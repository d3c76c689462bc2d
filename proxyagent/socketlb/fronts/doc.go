// Package fronts decides what the maps of package socketlb hold: which fronts of a Plan are
// translated at connect(), to which endpoints each leads, and in what order the maps change.
//
//	Delta ──> Table ── Reduce ──> Memory      before the rules change: what goes
//	            └───── Extend ──> Memory      after they have: what comes
//
// A front is a virtual IP and port over TCP. It has a slot, which leads to a block: places one
// after the other, one for each turn of an endpoint. A block that a slot leads to never changes. A
// change writes a new block and then has the slot lead there, in one store of 64 bits; the old
// block, and the slot of a front that goes, are used again only by a later Reduce, a second later.
//
// It is pure: the kernel is behind [Memory]. The same Plan leads to the same fronts and endpoints,
// whatever came before; only the numbers of slots and places may differ. Start with table.go;
// target.go has the rules of what is translated, arena.go the places, describe.go what admins are
// told.
package fronts
