package trace

import (
	"net/netip"
	"strconv"
	"strings"
)

// effect is the result of a target: the packets go on to the next rule, are accepted for this table, or end
// here. note is the text for it.
type effect struct {
	state
	accepted bool
	end      *End
	note     string
	// doubt is true when the target is unknown and was skipped.
	doubt bool
}

// targets are the known extensions.
var targets = map[string]func(r rule, s state) effect{
	"":           func(_ rule, s state) effect { return effect{state: s} },
	"ACCEPT":     func(_ rule, s state) effect { return effect{state: s.touch(), accepted: true} },
	"DROP":       func(r rule, s state) effect { return ends(s, End{Verdict: Dropped, Because: r.text}) },
	"REJECT":     reject,
	"DNAT":       dnat,
	"REDIRECT":   redirect,
	"SNAT":       func(r rule, s state) effect { return snat(s, newSource+value(r.args, "--to-source")) },
	"MASQUERADE": func(_ rule, s state) effect { return snat(s, nodeSource) },
	"MARK":       setMark,
	"SET":        changeSet,
	"LOG":        func(_ rule, s state) effect { return effect{state: s, note: "is logged"} },
	"NFLOG":      func(_ rule, s state) effect { return effect{state: s, note: "is logged"} },
	"TRACE":      func(_ rule, s state) effect { return effect{state: s} },
	"CONNMARK":   connmark,
	"TCPMSS":     func(_ rule, s state) effect { return effect{state: s} },
	"CHECKSUM":   func(_ rule, s state) effect { return effect{state: s} },
}

// nodeSource is the text for MASQUERADE, newSource that for SNAT, before the address.
const (
	nodeSource = "the node's address"
	newSource  = "the source "
)

func (s state) touch() state {
	s.touched = true
	return s
}

func ends(s state, e End) effect { return effect{state: s, end: &e} }

// unknownTarget skips a target that is not known.
func unknownTarget(s state) effect { return effect{state: s, doubt: true} }

func reject(r rule, s state) effect {
	with := value(r.args, "--reject-with")
	return ends(s, End{Verdict: Refused, Because: r.text, Detail: with})
}

func snat(s state, source string) effect {
	s = s.touch()
	s.source = source
	return effect{state: s, accepted: true, note: "leaves with " + source}
}

// dnat follows a single destination. Of a range the kernel chooses any.
func dnat(r rule, s state) effect {
	text := value(r.args, "--to-destination")
	to, ok := destination(text, s.Dst)
	if !ok {
		return ends(s, End{Verdict: NotFollowed, Because: r.text, Detail: text})
	}
	s = s.touch()
	s.Dst = to
	return effect{state: s, accepted: true, note: "goes to " + to.String()}
}

// destination reads an address, a port or both; a missing part keeps its value.
func destination(text string, now netip.AddrPort) (netip.AddrPort, bool) {
	if to, err := netip.ParseAddrPort(text); err == nil {
		return to, true
	}
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return netip.AddrPortFrom(a, now.Port()), true
	}
	port, ok := strings.CutPrefix(text, ":")
	n, err := strconv.ParseUint(port, 10, 16)
	return netip.AddrPortFrom(now.Addr(), uint16(n)), ok && err == nil
}

// redirect is to the loopback address for what the node sends. For others it is to the address of the incoming interface.
func redirect(r rule, s state) effect {
	ports := value(r.args, "--to-ports")
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if s.Dst.Addr().Is6() {
		loopback = netip.IPv6Loopback()
	}
	to, ok := destination(":"+ports, netip.AddrPortFrom(loopback, 0))
	if ports == "" {
		to, ok = netip.AddrPortFrom(loopback, s.Dst.Port()), true
	}
	if !ok || s.In != "" {
		return ends(s, End{Verdict: NotFollowed, Because: r.text, Detail: strings.TrimSpace("this node itself, port " + ports)})
	}
	s = s.touch()
	s.Dst = to
	return effect{state: s, accepted: true, note: "goes to " + to.String()}
}

// setMark accepts all spellings; iptables-save uses the first.
func setMark(r rule, s state) effect {
	for _, o := range r.args {
		v, m, ok := parseMark(o.arg())
		if !ok {
			continue
		}
		switch o.name {
		case "--set-xmark":
			s.mark = s.mark&^m ^ v
		case "--set-mark":
			s.mark = s.mark&^m | v
		case "--or-mark":
			s.mark |= v
		case "--and-mark":
			s.mark &= v
		case "--xor-mark":
			s.mark ^= v
		default:
			continue
		}
		return effect{state: s.touch(), note: "has the mark 0x" + strconv.FormatUint(uint64(s.mark), 16)}
	}
	return unknownTarget(s)
}

// connmark knows the mark of a new connection: it has none. To restore it takes the mark of the packet away.
func connmark(r rule, s state) effect {
	for _, o := range r.args {
		if o.name == "--restore-mark" {
			return unknownTarget(s)
		}
	}
	return effect{state: s}
}

func changeSet(r rule, s state) effect {
	note := ""
	for _, o := range r.args {
		switch o.name {
		case "--add-set":
			note = "is remembered in the set " + o.arg()
		case "--del-set":
			note = "is taken out of the set " + o.arg()
		case "--map-set":
			return unknownTarget(s)
		}
	}
	return effect{state: s, note: note}
}

// value is the argument of an option, empty when it is not there.
func value(os []option, name string) string {
	for _, o := range os {
		if o.name == name {
			return o.arg()
		}
	}
	return ""
}
