//go:build linux

package socketlb

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Offsets in struct bpf_sock_addr, which a program gets.
const (
	inIP4      = 4
	inIP6      = 8
	inPort     = 24 // as on the wire, in the lower half of a word
	inProtocol = 36
	inSocket   = 64
)

// Offsets in struct bpf_sock, of the address to which the socket is bound.
const (
	boundIP4 = 24
	boundIP6 = 28
)

// Offsets in what the maps hold. A key is an address, a port as on the wire, and the protocol: 8
// bytes, or 20 with IPv6. A place is a key and an endpoint, of the same form. Keep maps.go in step.
const (
	slotLeads = 0  // base, and above that how many places, and in the highest bit whether in turn
	slotTurns = 8  // turns so far
	slotTaken = 16 // connections so far
	slotSize  = 24

	noteFront    = 0  // an IPv6 address, or IPv4 mapped into it, and a word for the port
	noteEndpoint = 20 // the same
	noteSize     = 40
)

// Offsets on the stack, of a key, of the number of a slot or place, and of an endpoint. Of eight
// bytes those that come last are written first: kernels before 6.8 take a word at the beginning of
// eight bytes for a register that was saved, which without PERFMON no program may write into.
const (
	onKey      = -24
	onNumber   = -28
	onEndpoint = -48
)

// mapped is the third word of an IPv4 address that is mapped into IPv6.
var mapped = int64(native(0, 0, 0xff, 0xff))

// words is how many words an address has, at the end of the four of an IPv6 address.
func words(f model.Family) int16 { return int16(f.Bits() / 32) }

// code is what programs refer to.
type code struct {
	tables map[model.Family]descriptors
	notes  int
	turns  bool // the kernel's programs can count
	// onlyNode has connections alone translated that begin in the network namespace with the cookie.
	onlyNode bool
	cookie   uint64
}

// descriptors are those of the maps of a family.
type descriptors struct{ fronts, slots, places int }

// hooks are what programs are attached to.
var hooks = []struct {
	attach ebpf.AttachType
	name   string
	code   func(code) asm.Instructions
}{
	{ebpf.AttachCGroupInet4Connect, "clusterip_conn4", func(c code) asm.Instructions { return c.connect(model.IPv4) }},
	{ebpf.AttachCGroupInet6Connect, "clusterip_conn6", func(c code) asm.Instructions { return c.connect(model.IPv6) }},
	{ebpf.AttachCgroupInet4GetPeername, "clusterip_name4", func(c code) asm.Instructions { return c.peerName(model.IPv4) }},
	{ebpf.AttachCgroupInet6GetPeername, "clusterip_name6", func(c code) asm.Instructions { return c.peerName(model.IPv6) }},
}

// Each program returns 1, whatever happens: what a hook refuses fails the system call, and has hung
// clients of NFS.

// connect leads a connection to an endpoint of the front that it is for, and notes both at its
// socket, for getpeername. Without the note it changes nothing, and rules lead the connection. One
// that it does not lead loses the note of an earlier connection: a socket may be used again.
func (c code) connect(f model.Family) asm.Instructions {
	all := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R1, asm.R6, inProtocol, asm.Word),
		asm.JNE.Imm(asm.R1, int32(model.TCP), "out"),
	}
	if c.onlyNode {
		all = append(all,
			asm.Mov.Reg(asm.R1, asm.R6), asm.FnGetNetnsCookie.Call(),
			asm.LoadImm(asm.R1, int64(c.cookie), asm.DWord), asm.JNE.Reg(asm.R0, asm.R1, "out"))
	}
	if f == model.IPv4 {
		all = append(all, c.lead(model.IPv4, inIP4)...)
	} else {
		all = append(all, isMapped("native")...)
		all = append(all, c.lead(model.IPv4, inIP6+12)...)
		all = append(all, withSymbol("native", c.lead(model.IPv6, inIP6))...)
	}
	all = append(all, withSymbol("clear", c.atSocket("out"))...)
	return append(all, asm.FnSkStorageDelete.Call(), asm.Mov.Imm(asm.R0, 1).WithSymbol("out"), asm.Return())
}

// isMapped jumps if the address is a native one of IPv6.
func isMapped(otherwise string) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R6, inIP6, asm.Word), asm.JNE.Imm(asm.R1, 0, otherwise),
		asm.LoadMem(asm.R1, asm.R6, inIP6+4, asm.Word), asm.JNE.Imm(asm.R1, 0, otherwise),
		asm.LoadMem(asm.R1, asm.R6, inIP6+8, asm.Word), asm.Mov.Imm32(asm.R2, int32(mapped)), asm.JNE.Reg(asm.R1, asm.R2, otherwise),
	}
}

// native is four bytes as a word of a register.
func native(bytes ...byte) int32 { return int32(binary.NativeEndian.Uint32(bytes)) }

// onLoopback jumps if the socket is bound to a loopback address: rules give it the node's, without
// which no answer would come back.
func onLoopback(f model.Family) asm.Instructions {
	all := asm.Instructions{asm.LoadMem(asm.R2, asm.R6, inSocket, asm.DWord), asm.JEq.Imm(asm.R2, 0, "out")}
	if f == model.IPv4 {
		return append(all, asm.LoadMem(asm.R1, asm.R2, boundIP4, asm.Word), asm.And.Imm(asm.R1, native(0xff, 0, 0, 0)), asm.JEq.Imm(asm.R1, native(127, 0, 0, 0), "clear"))
	}
	for i := range int16(3) {
		all = append(all, asm.LoadMem(asm.R1, asm.R2, boundIP6+4*i, asm.Word), asm.JNE.Imm(asm.R1, 0, "routed"))
	}
	return append(all, asm.LoadMem(asm.R1, asm.R2, boundIP6+12, asm.Word), asm.JEq.Imm(asm.R1, native(0, 0, 0, 1), "clear"))
}

// lead is connect for one family of fronts, whose address is at an offset of the context.
func (c code) lead(f model.Family, at int16) asm.Instructions {
	port := onKey + 4*words(f)
	all := onLoopback(f)
	begin := len(all)
	all = append(all,
		asm.StoreImm(asm.RFP, port+3, 0, asm.Byte), asm.StoreImm(asm.RFP, port+2, int64(model.TCP), asm.Byte),
		asm.LoadMem(asm.R1, asm.R6, inPort, asm.Word), asm.StoreMem(asm.RFP, port, asm.R1, asm.Half))
	for i := words(f) - 1; i >= 0; i-- {
		all = append(all, asm.LoadMem(asm.R1, asm.R6, at+4*i, asm.Word), asm.StoreMem(asm.RFP, onKey+4*i, asm.R1, asm.Word))
	}
	if f == model.IPv6 {
		all[begin] = all[begin].WithSymbol("routed")
	}
	all = append(all, c.choose(f)...)
	all = append(all, c.note(f)...)
	return append(all, arrive(f, at)...)
}

// lookUp has R0 point to the value of what is on the stack, or jumps.
func lookUp(in int, key int16, otherwise string) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, in), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, int32(key)),
		asm.FnMapLookupElem.Call(), asm.JEq.Imm(asm.R0, 0, otherwise),
	}
}

// choose puts an endpoint of the front on the stack, and has R8 point to its slot. What a slot
// leads to is read at once. An entry of a hash, a slot and a place may be those of another front by
// the time that they are read; but the place says whose it is.
func (c code) choose(f model.Family) asm.Instructions {
	maps, random, chosen := c.tables[f], fmt.Sprintf("random%d", f), fmt.Sprintf("chosen%d", f)
	all := lookUp(maps.fronts, onKey, "clear")
	all = append(all, asm.LoadMem(asm.R7, asm.R0, 0, asm.Word), asm.StoreMem(asm.RFP, onNumber, asm.R7, asm.Word))
	all = append(all, lookUp(maps.slots, onNumber, "clear")...)
	all = append(all,
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.LoadMem(asm.R7, asm.R8, slotLeads, asm.DWord),
		asm.Mov.Reg(asm.R9, asm.R7), asm.RSh.Imm(asm.R9, 32), asm.JEq.Imm(asm.R9, 0, "clear"))
	if c.turns {
		all = append(all,
			asm.Mov.Reg(asm.R1, asm.R9), asm.RSh.Imm(asm.R1, 31), asm.And.Imm(asm.R9, 1<<31-1), asm.JEq.Imm(asm.R1, 0, random),
			asm.Mov.Imm(asm.R0, 1), takeTurn(), asm.Ja.Label(chosen))
	}
	all = append(all,
		asm.FnGetPrandomU32.Call().WithSymbol(random),
		asm.Mod.Reg(asm.R0, asm.R9).WithSymbol(chosen),
		asm.Add.Reg32(asm.R7, asm.R0), asm.StoreMem(asm.RFP, onNumber, asm.R7, asm.Word))
	all = append(all, lookUp(maps.places, onNumber, "clear")...)
	size := 4 * (words(f) + 1)
	for i := size - 4; i >= 0; i -= 4 { // first the endpoint, which is written after the front
		all = append(all, asm.LoadMem(asm.R1, asm.R0, size+i, asm.Word), asm.StoreMem(asm.RFP, onEndpoint+i, asm.R1, asm.Word))
	}
	for i := int16(0); i < size; i += 4 {
		all = append(all, asm.LoadMem(asm.R1, asm.R0, i, asm.Word), asm.LoadMem(asm.R2, asm.RFP, onKey+i, asm.Word), asm.JNE.Reg(asm.R1, asm.R2, "clear"))
	}
	return all
}

// takeTurn adds R0 to the turns of the slot at R8, and has R0 be what they were before. The library
// (v0.22.0) encodes a zero for the operation unless it is told: to add, and to return nothing.
func takeTurn() asm.Instruction {
	i := asm.FetchAdd.Mem(asm.R8, asm.R0, asm.DWord, slotTurns)
	i.Constant = int64(asm.FetchAdd >> 8)
	return i
}

// atSocket is what helpers of notes begin with: R1 is their map, and R2 the socket.
func (c code) atSocket(otherwise string) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R6, inSocket, asm.DWord), asm.JEq.Imm(asm.R2, 0, otherwise),
		asm.LoadMapPtr(asm.R1, c.notes),
	}
}

// note leaves front and endpoint at the socket. Where there is no room for a note, there is no
// older one either.
func (c code) note(f model.Family) asm.Instructions {
	all := append(c.atSocket("out"), asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 1), asm.FnSkStorageGet.Call(), asm.JEq.Imm(asm.R0, 0, "out"))
	for _, part := range [][2]int16{{noteFront, onKey}, {noteEndpoint, onEndpoint}} {
		to, from := part[0], part[1]
		if f == model.IPv4 {
			all = append(all, asm.StoreImm(asm.R0, to, 0, asm.Word), asm.StoreImm(asm.R0, to+4, 0, asm.Word), asm.StoreImm(asm.R0, to+8, mapped, asm.Word))
		}
		for i := range words(f) {
			all = append(all, asm.LoadMem(asm.R1, asm.RFP, from+4*i, asm.Word), asm.StoreMem(asm.R0, to+4*(4-words(f)+i), asm.R1, asm.Word))
		}
		all = append(all, asm.LoadMem(asm.R1, asm.RFP, from+4*words(f), asm.Half), asm.StoreMem(asm.R0, to+16, asm.R1, asm.Word))
	}
	return all
}

// arrive has the connection go to the endpoint, counts it, and ends.
func arrive(f model.Family, at int16) (all asm.Instructions) {
	for i := range words(f) {
		all = append(all, asm.LoadMem(asm.R1, asm.RFP, onEndpoint+4*i, asm.Word), asm.StoreMem(asm.R6, at+4*i, asm.R1, asm.Word))
	}
	return append(all,
		asm.LoadMem(asm.R1, asm.RFP, onEndpoint+4*words(f), asm.Half), asm.StoreMem(asm.R6, inPort, asm.R1, asm.Word),
		asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(asm.R8, asm.R1, asm.DWord, slotTaken),
		asm.Ja.Label("out"))
}

// peerName tells a client the front that its connection was for, if the socket has a note and is
// still connected to the endpoint that the note names.
func (c code) peerName(f model.Family) asm.Instructions {
	at, first := int16(inIP6), 4*(4-words(f))
	if f == model.IPv4 {
		at = inIP4
	}
	all := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R1, asm.R6, inProtocol, asm.Word),
		asm.JNE.Imm(asm.R1, int32(model.TCP), "out"),
	}
	all = append(all, c.atSocket("out")...)
	all = append(all, asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 0), asm.FnSkStorageGet.Call(), asm.JEq.Imm(asm.R0, 0, "out"))
	each := func(part int16, do func(context, note int16)) {
		for i := range words(f) {
			do(at+4*i, part+first+4*i)
		}
		do(inPort, part+16)
	}
	each(noteEndpoint, func(context, note int16) {
		all = append(all, asm.LoadMem(asm.R1, asm.R6, context, asm.Word), asm.LoadMem(asm.R2, asm.R0, note, asm.Word), asm.JNE.Reg(asm.R1, asm.R2, "out"))
	})
	each(noteFront, func(context, note int16) {
		all = append(all, asm.LoadMem(asm.R1, asm.R0, note, asm.Word), asm.StoreMem(asm.R6, context, asm.R1, asm.Word))
	})
	return append(all, asm.Mov.Imm(asm.R0, 1).WithSymbol("out"), asm.Return())
}

func withSymbol(name string, all asm.Instructions) asm.Instructions {
	all[0] = all[0].WithSymbol(name)
	return all
}
