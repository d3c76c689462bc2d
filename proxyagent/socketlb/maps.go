//go:build linux

package socketlb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/socketlb/fronts"
)

// memory are the maps of one family, in the kernel: the hash that leads from a front to its slot,
// and the arrays of slots and places, which are in this process's memory too.
type memory struct {
	family     model.Family
	translator *Translator

	fronts, slots, places *ebpf.Map
	slot, place           []byte // of slots and places
}

var _ fronts.Memory = (*memory)(nil)

// newNotes makes the map of what connect has to tell getpeername of a socket, which the kernel
// keeps with the socket.
func newNotes() (*ebpf.Map, error) {
	return ebpf.NewMap(&ebpf.MapSpec{
		Name: "clusterip_notes", Type: ebpf.SkStorage, KeySize: 4, ValueSize: noteSize, Flags: unix.BPF_F_NO_PREALLOC,
		Key:   &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
		Value: &btf.Array{Index: &btf.Int{Name: "index", Size: 4}, Type: &btf.Int{Name: "word", Size: 4}, Nelems: noteSize / 4},
	})
}

// keySize is that of a front, and of an endpoint.
func (m *memory) keySize() int { return m.family.Bits()/8 + 4 }

// resize makes new maps with what there is, which programs do not use yet. It returns what closes
// the old ones.
func (m *memory) resize(slots, places int) (old func(), err error) {
	slots, places = max(slots, 1), max(places, 1)
	before, made := *m, []*ebpf.Map(nil)
	array := func(name string, value, most int, have []byte) (*ebpf.Map, []byte, error) {
		a, err := ebpf.NewMap(&ebpf.MapSpec{Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(value), MaxEntries: uint32(most), Flags: unix.BPF_F_MMAPABLE})
		if err != nil {
			return nil, nil, err
		}
		made = append(made, a)
		bytes, err := unix.Mmap(a.FD(), 0, value*most, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		copy(bytes, have)
		return a, bytes, err
	}
	defer func() {
		if err != nil {
			*m = before
			for _, a := range made {
				_ = a.Close()
			}
		}
	}()
	m.slots, m.slot, err = array("clusterip_slots", slotSize, slots, before.slot)
	if err != nil {
		return nil, err
	}
	m.places, m.place, err = array("clusterip_places", 2*m.keySize(), places, before.place)
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(m.slot))
	}
	m.fronts, err = m.moved(slots)
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(m.slot), unix.Munmap(m.place))
	}
	return before.close, nil
}

// moved is the hash for so many fronts, with all that there are.
func (m *memory) moved(most int) (*ebpf.Map, error) {
	h, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "clusterip_front", Type: ebpf.Hash, KeySize: uint32(m.keySize()), ValueSize: 4, MaxEntries: uint32(most), Flags: unix.BPF_F_NO_PREALLOC,
	})
	if err != nil || m.fronts == nil {
		return h, err
	}
	key, slot := make([]byte, m.keySize()), uint32(0)
	all := m.fronts.Iterate()
	for all.Next(&key, &slot) {
		if err := h.Put(key, slot); err != nil {
			return nil, errors.Join(err, h.Close())
		}
	}
	if err := all.Err(); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (m *memory) close() {
	for _, a := range []*ebpf.Map{m.fronts, m.slots, m.places} {
		_ = a.Close() // a nil Map has nothing to close
	}
	for _, bytes := range [][]byte{m.slot, m.place} {
		if bytes != nil {
			_ = unix.Munmap(bytes)
		}
	}
}

// key is how maps spell a front, or an endpoint, for which the protocol does not matter.
func (m *memory) key(a netip.AddrPort) []byte {
	key := binary.BigEndian.AppendUint16(a.Addr().AsSlice(), a.Port())
	return append(key, byte(model.TCP), 0)
}

// Grow implements [fronts.Memory].
func (m *memory) Grow(slots, places int) error { return m.translator.grow(m, slots, places) }

// Write implements [fronts.Memory]. The front comes first: programs read it last.
func (m *memory) Write(place uint32, front, endpoint netip.AddrPort) {
	at := m.place[int(place)*2*m.keySize():]
	copy(at, m.key(front))
	copy(at[m.keySize():], m.key(endpoint))
}

// Lead implements [fronts.Memory].
func (m *memory) Lead(slot, base uint32, n int, inTurn bool) {
	word := uint64(n)<<32 | uint64(base)
	if inTurn && n > 0 {
		word |= 1 << 63
	}
	atomic.StoreUint64(m.at(slot, slotLeads), word)
}

// at is a field of a slot, which programs read and write.
func (m *memory) at(slot uint32, field int) *uint64 {
	return (*uint64)(unsafe.Pointer(&m.slot[int(slot)*slotSize+field]))
}

// Add implements [fronts.Memory].
func (m *memory) Add(all []fronts.Entry) (failed []fronts.Entry, why error) {
	for _, e := range all {
		atomic.StoreUint64(m.at(e.Slot, slotTurns), 0)
		atomic.StoreUint64(m.at(e.Slot, slotTaken), 0)
	}
	for len(all) > 0 {
		n, err := m.batch(all[:min(len(all), 4096)])
		if err != nil {
			failed, why = append(failed, all[n]), fmt.Errorf("adding the front %s: %w", all[n].Front, err)
			n++
		}
		all = all[n:]
	}
	return failed, why
}

// batch adds fronts until one fails, and returns how many it added.
func (m *memory) batch(all []fronts.Entry) (int, error) {
	var slots []uint32
	var keys4 [][8]byte
	var keys6 [][20]byte
	for _, e := range all {
		slots = append(slots, e.Slot)
		if key := m.key(e.Front); m.family == model.IPv4 {
			keys4 = append(keys4, [8]byte(key))
		} else {
			keys6 = append(keys6, [20]byte(key))
		}
	}
	if m.family == model.IPv4 {
		return m.fronts.BatchUpdate(keys4, slots, nil)
	}
	return m.fronts.BatchUpdate(keys6, slots, nil)
}

// Remove implements [fronts.Memory].
func (m *memory) Remove(front netip.AddrPort) error {
	if err := m.fronts.Delete(m.key(front)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return nil
}

// Taken implements [fronts.Memory].
func (m *memory) Taken(slot uint32) uint64 { return atomic.LoadUint64(m.at(slot, slotTaken)) }
