//go:build linux

package tables

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Rule is what the kernel evaluates. Rules are written by netlink, not by the program nft: that
// fails if sets of other programs are newer than itself, and cannot say or read back some of ours
// (a key with a random number). Besides, rules and elements are one transaction.
type Rule []expr.Any

// Registers of four bytes: most keys begin in the first, values that are looked up in the ninth.
// The three before them have the number of a port with session affinity, those before that the
// client's address: both client and number, and number and endpoint, are keys.
const (
	keys   = unix.NFT_REG32_00
	number = unix.NFT_REG32_05
	values = unix.NFT_REG32_08
	spare  = unix.NFT_REG32_15
)

// fields loads fields of a packet side by side into registers, which begin with from.
type fields struct {
	f          model.Family
	from, next uint32
	Rule
}

func load(f model.Family) *fields { return loadAt(f, keys) }

func loadAt(f model.Family, register uint32) *fields {
	return &fields{f: f, from: register, next: register}
}

func (l *fields) put(size int, e func(register uint32) expr.Any) *fields {
	l.Rule = append(l.Rule, e(l.next))
	l.next += uint32(size+3) / 4
	return l
}

func (l *fields) payload(base expr.PayloadBase, offset, size int) *fields {
	return l.put(size, func(r uint32) expr.Any {
		return &expr.Payload{DestRegister: r, Base: base, Offset: uint32(offset), Len: uint32(size)}
	})
}

func (l *fields) saddr() *fields { return l.address(12, 8) }
func (l *fields) daddr() *fields { return l.address(16, 24) }

// address loads one that begins there in the header of IPv4, or there in that of IPv6.
func (l *fields) address(at4, at6 int) *fields {
	if l.f == model.IPv6 {
		at4 = at6
	}
	return l.payload(expr.PayloadBaseNetworkHeader, at4, l.f.Bits()/8)
}

// saddrOf loads the first bits of the source; length loads a number.
func (l *fields) saddrOf(bits int) *fields {
	first := l.next
	l.saddr()
	l.Rule = append(l.Rule, masked(first, mask(bits, l.f.Bits())))
	return l
}

func (l *fields) length(n int) *fields {
	return l.put(4, func(r uint32) expr.Any { return constant(r, number32(uint32(n))) })
}

func (l *fields) protocol() *fields {
	return l.put(4, func(r uint32) expr.Any { return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: r} })
}

func (l *fields) port() *fields { return l.payload(expr.PayloadBaseTransportHeader, 2, 2) }

// hashSeed is the same on all nodes: whichever a client's packets reach, they find one endpoint.
const hashSeed = 0x636c7573

// pick loads an index below a number.
func (l *fields) pick(by picker, n int) *fields {
	if by == bySource {
		client := loadAt(l.f, clientAt(l.f)).saddr()
		l.Rule = append(l.Rule, client.Rule...)
		return l.put(4, func(r uint32) expr.Any {
			return &expr.Hash{SourceRegister: client.from, DestRegister: r, Length: uint32(l.f.Bits() / 8), Modulus: uint32(n), Seed: hashSeed, Type: expr.HashTypeJenkins}
		})
	}
	kind := map[picker]uint32{atRandom: unix.NFT_NG_RANDOM, inTurn: unix.NFT_NG_INCREMENTAL}[by]
	return l.put(4, func(r uint32) expr.Any { return &expr.Numgen{Register: r, Modulus: uint32(n), Type: kind} })
}

// front and node load the key of a front, or of a node port.
func (l *fields) front() *fields { return l.daddr().node() }
func (l *fields) node() *fields  { return l.protocol().port() }

// in goes on if the key is in a set; vmap goes where a map leads; find puts what a map has into
// registers, those of values if nothing else is said.
func (l *fields) in(s Set) Rule {
	return append(l.Rule, &expr.Lookup{SourceRegister: l.from, SetName: string(s)})
}
func (l *fields) notIn(s Set) Rule {
	return append(l.Rule, &expr.Lookup{SourceRegister: l.from, SetName: string(s), Invert: true})
}
func (l *fields) vmap(s Set) Rule { return l.findAt(s, unix.NFT_REG_VERDICT) }
func (l *fields) find(m Set) Rule { return l.findAt(m, values) }

func (l *fields) findAt(m Set, register uint32) Rule {
	return append(l.Rule, &expr.Lookup{SourceRegister: l.from, SetName: string(m), DestRegister: register, IsDestRegSet: true})
}

// follow goes to the chain of the route to which a map leads, with the number of the route in the
// packet's mark: the program nft 1.0.6 would abort, whatever it lists, if the key of one look-up is
// what another one has found.
func (l *fields) follow(m, to Set) Rule {
	mark := func(register uint32, set bool) expr.Any {
		return &expr.Meta{Key: expr.MetaKeyMARK, Register: register, SourceRegister: set}
	}
	return append(l.find(m), mark(spare, false), mark(values, true), mark(keys, false), mark(spare, true),
		&expr.Lookup{SourceRegister: keys, SetName: string(to), DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true})
}

// dnat translates to what was found.
func dnat(f model.Family) expr.Any {
	return &expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(f.Number()), RegAddrMin: values, RegProtoMin: values + uint32(f.Bits()/32), Specified: true}
}

// keysAre goes on if the register of keys has these bytes or, unless equal, if it has not.
func keysAre(equal bool, data []byte) expr.Any {
	if equal {
		return &expr.Cmp{Op: expr.CmpOpEq, Register: keys, Data: data}
	}
	return &expr.Cmp{Op: expr.CmpOpNeq, Register: keys, Data: data}
}

// within goes on if the address that was loaded is in a prefix, or is not.
func (l *fields) within(p netip.Prefix, inside bool) Rule {
	return append(l.Rule, masked(keys, mask(p.Bits(), l.f.Bits())), keysAre(inside, p.Masked().Addr().AsSlice()))
}

// mask has the first of so many bits set.
func mask(first, of int) []byte {
	m := make([]byte, of/8)
	for i := range first {
		m[i/8] |= 0x80 >> (i % 8)
	}
	return m
}

func masked(register uint32, m []byte) expr.Any {
	return &expr.Bitwise{
		SourceRegister: register, DestRegister: register,
		Len: uint32(len(m)), Mask: m, Xor: make([]byte, len(m)),
	}
}

// number32 is a number as the kernel has it.
func number32(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// bits goes on if any of some bits is set.
func bits(load expr.Any, which uint32) Rule {
	return Rule{load, masked(keys, number32(which)), keysAre(false, number32(0))}
}

// ctState and status match bits of connection tracking. The state of an untracked packet has no
// such bit, and to ask for its status ends the rule.
func ctState(which uint32) Rule { return bits(&expr.Ct{Register: keys, Key: expr.CtKeySTATE}, which) }

func status(which uint32) Rule { return bits(&expr.Ct{Register: keys, Key: expr.CtKeySTATUS}, which) }

func marked(bit int) Rule { return bits(&expr.Meta{Key: expr.MetaKeyMARK, Register: keys}, 1<<bit) }

// setMark sets or turns a bit of the packet's mark.
func setMark(bit int, turn bool) Rule {
	m, x := ^uint32(1<<bit), uint32(1<<bit)
	if turn {
		m = ^uint32(0)
	}
	return Rule{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: keys},
		&expr.Bitwise{SourceRegister: keys, DestRegister: keys, Len: 4, Mask: number32(m), Xor: number32(x)},
		&expr.Meta{Key: expr.MetaKeyMARK, Register: keys, SourceRegister: true},
	}
}

// isLocal matches packets from or to addresses of this node, or all other packets.
func isLocal(source, yes bool) Rule {
	return Rule{&expr.Fib{Register: keys, ResultADDRTYPE: true, FlagSADDR: source, FlagDADDR: !source}, keysAre(yes, number32(unix.RTN_LOCAL))}
}

// cameBy matches the interface a packet came in by; prefix: the beginning of its name.
func cameBy(name string, prefix, yes bool) Rule {
	b := []byte(name)
	if !prefix {
		b = append(b, make([]byte, unix.IFNAMSIZ-len(b))...)
	}
	return Rule{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: keys}, keysAre(yes, b)}
}

// leavesBy matches the interface a packet leaves by.
func leavesBy(name string, yes bool) Rule {
	r := cameBy(name, false, yes)
	r[0] = &expr.Meta{Key: expr.MetaKeyOIFNAME, Register: keys}
	return r
}

func isProtocol(p model.Protocol) Rule {
	return Rule{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: keys}, keysAre(true, []byte{byte(p)})}
}

// refuse answers with a reset, or that the port cannot be reached.
func refuse(f model.Family, reset bool) expr.Any {
	if reset {
		return &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}
	}
	code := uint8(3) // port unreachable
	if f == model.IPv6 {
		code = 4
	}
	return &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: code}
}

func jump(to string) expr.Any { return &expr.Verdict{Kind: expr.VerdictJump, Chain: to} }
func goTo(to string) expr.Any { return &expr.Verdict{Kind: expr.VerdictGoto, Chain: to} }

var (
	masquerade expr.Any = &expr.Masq{FullyRandom: true}
	dropped    expr.Any = &expr.Verdict{Kind: expr.VerdictDrop}
	accepted   expr.Any = &expr.Verdict{Kind: expr.VerdictAccept}
	returned   expr.Any = &expr.Verdict{Kind: expr.VerdictReturn}
)

// Session affinity. The program nft, which other programs of the node may run, aborts when it lists
// a rule in which what a map has is a key, or a field of one: 1.0.6 does. So each map here has a
// field more than needed, and what it has begins one register before the key. nft looks at the
// register of the key, which has had a constant, and lists that.

// numbered loads the number of a port from the map of its front, whose key was loaded, and the
// address of the client before it. The last field of the number is local.
func (l *fields) numbered(in place, onlyLocal bool) Rule {
	zero := number32(0)
	before := Rule{constant(number, zero), constant(number+1, append(zero, localField(onlyLocal)...))}
	return and(before, l.findAt(in.affinity, number-1), loadAt(l.f, clientAt(l.f)).saddr().Rule)
}

func constant(register uint32, data []byte) expr.Any {
	return &expr.Immediate{Register: register, Data: data}
}

// constants is constant in pieces: of a longer one nft cannot list the beginning as a field.
func constants(register uint32, data []byte) (r Rule) {
	for piece := range slices.Chunk(data, 8) {
		r, register = append(r, constant(register, piece)), register+2
	}
	return r
}

// clientAt is the register where the key of clients begins.
func clientAt(f model.Family) uint32 { return number - uint32(f.Bits()/32) }

// known goes on if the client has an endpoint, which is among the values then, and if the port has
// it still, or has not.
func known(f model.Family, still bool) Rule {
	return append(constants(values, make([]byte, f.Bits()/8+4)), lookUpClient(f),
		&expr.Lookup{SourceRegister: number, SetName: string(kept), Invert: !still})
}

func lookUpClient(f model.Family) expr.Any {
	return &expr.Lookup{SourceRegister: clientAt(f), SetName: string(Clients), DestRegister: values - 1, IsDestRegSet: true}
}

// hidden has values that a map will have begin in the middle of a constant.
func hidden(f model.Family, onlyLocal bool) Rule {
	return constants(values-1, append(localField(onlyLocal), make([]byte, f.Bits()/8+4)...))
}

// remember notes the values as endpoint of the client, for some seconds from now. A client that has
// an endpoint keeps it.
func remember(f model.Family, seconds int) expr.Any {
	return write(f, unix.NFT_DYNSET_OP_UPDATE, seconds)
}

// forget has the client choose again.
func forget(f model.Family) expr.Any { return write(f, dynsetDelete, 0) }

// dynsetDelete is NFT_DYNSET_OP_DELETE of linux/netfilter/nf_tables.h.
const dynsetDelete = 2

func write(f model.Family, operation uint32, seconds int) expr.Any {
	return &expr.Dynset{SrcRegKey: clientAt(f), SrcRegData: values - 1, SetName: string(Clients), Operation: operation, Timeout: time.Duration(seconds) * time.Second}
}

// mostNew is how many new clients of a port are remembered in its time-out, lest it take all room.
const mostNew = 1 << 16

// admit goes on as long as a port does not get too many new clients.
func admit(seconds int) expr.Any {
	const day = 24 * 60 * 60
	limit := &expr.Limit{Type: expr.LimitTypePkts, Rate: max(1, mostNew*day/uint64(seconds)), Unit: expr.LimitTimeDay, Burst: mostNew}
	return &expr.Dynset{SrcRegKey: number, SetName: string(Newcomers), Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: time.Duration(seconds) * time.Second, Exprs: []expr.Any{limit}}
}

// and joins rules.
func and(parts ...Rule) (all Rule) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
