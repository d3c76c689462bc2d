package trace

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// match is one condition of a rule.
type match func(w Node, s state) answer

// matcher reads the arguments of an option; nil when it does not understand them.
type matcher func(args []string) match

// matchers are the known options, by module and name. Those without a module come in the rule
// before the first -m.
var matchers = map[string]matcher{
	" -s": inPrefix(func(s state) netip.Addr { return s.Src }),
	" -d": inPrefix(func(s state) netip.Addr { return s.Dst.Addr() }),
	" -i": onInterface(func(s state) string { return s.In }),
	" -o": onInterface(func(s state) string { return s.out }),
	" -p": hasProtocol,
	" -f": func([]string) match { return never },

	"comment --comment": func([]string) match { return always },

	"tcp --dport":     toPort,
	"tcp --sport":     fromPort,
	"tcp --tcp-flags": hasFlags,
	"udp --dport":     toPort,
	"udp --sport":     fromPort,
	"sctp --dport":    toPort,
	"sctp --sport":    fromPort,

	"multiport --dports": toPort,
	"multiport --sports": fromPort,

	"set --match-set":       inSet,
	"addrtype --src-type":   ofType(func(s state) netip.Addr { return s.Src }),
	"addrtype --dst-type":   ofType(func(s state) netip.Addr { return s.Dst.Addr() }),
	"mark --mark":           hasMark,
	"state --state":         inState,
	"conntrack --ctstate":   inState,
	"conntrack --ctdir":     func(args []string) match { return constant(slices.Equal(args, []string{"ORIGINAL"})) },
	"conntrack --ctproto":   hasProtocol,
	"iprange --src-range":   inRange(func(s state) netip.Addr { return s.Src }),
	"iprange --dst-range":   inRange(func(s state) netip.Addr { return s.Dst.Addr() }),
	"conntrack --ctorigdst": inPrefix(func(s state) netip.Addr { return s.original.Addr() }),
	"conntrack --ctorigsrc": inPrefix(func(s state) netip.Addr { return s.client }),
	"conntrack --ctorigdstport": func(args []string) match {
		return portIn(args, func(s state) uint16 { return s.original.Port() })
	},
}

// matchesOf turns the options of one module into conditions, each on its own but for those of statistic.
func matchesOf(module string, os []option) (ms []match) {
	if module == "statistic" {
		return []match{chance(os)}
	}
	for _, o := range os {
		m := match(nil)
		if read := matchers[module+" "+o.name]; read != nil {
			m = read(o.args)
		}
		if m == nil {
			m = unknownMatch(module, o)
		}
		if o.not {
			m = inverted(m)
		}
		ms = append(ms, m)
	}
	if len(os) == 0 && !slices.Contains(plainModules, module) {
		ms = append(ms, unknownMatch(module, option{}))
	}
	return ms
}

// plainModules match everything without options: -p has checked the protocol.
var plainModules = []string{"", "tcp", "udp", "sctp", "comment", "conntrack", "multiport"}

func unknownMatch(module string, o option) match {
	text := strings.TrimSpace("-m " + module + " " + o.String())
	if module == "" {
		text = o.String()
	}
	return func(Node, state) answer { return cannotTell("%s", text) }
}

func inverted(m match) match { return func(w Node, s state) answer { return m(w, s).not() } }

func always(Node, state) answer { return yes }
func never(Node, state) answer  { return no }

func constant(holds bool) match { return func(Node, state) answer { return when(holds) } }

func inPrefix(of func(state) netip.Addr) matcher {
	return func(args []string) match {
		if len(args) != 1 {
			return nil
		}
		p, ok := parsePrefix(args[0])
		if !ok {
			return nil
		}
		return func(_ Node, s state) answer {
			if !of(s).IsValid() {
				return cannotTell(whichAddress)
			}
			return when(p.Contains(of(s)))
		}
	}
}

// parsePrefix reads an address, with the length of a prefix or without. Masks with holes are unknown.
func parsePrefix(text string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(text)
	return p, err == nil
}

// onInterface matches a name, or with a plus at its end all names with that prefix. A packet that has no such interface has an empty name.
func onInterface(of func(state) string) matcher {
	return func(args []string) match {
		if len(args) != 1 {
			return nil
		}
		start, isPrefix := strings.CutSuffix(args[0], "+")
		return func(_ Node, s state) answer {
			switch name := of(s); {
			case name == unknownInterface:
				return cannotTell("the interface is not known")
			case isPrefix:
				return when(strings.HasPrefix(name, start))
			default:
				return when(name == start)
			}
		}
	}
}

// unknownInterface stands for one that routing did not find. No interface can have this name.
const unknownInterface = "?"

var protocols = map[string]model.Protocol{
	"tcp": model.TCP, "6": model.TCP, "udp": model.UDP, "17": model.UDP, "sctp": model.SCTP, "132": model.SCTP,
}

func hasProtocol(args []string) match {
	if len(args) != 1 {
		return nil
	}
	name := strings.ToLower(args[0])
	if name == "all" || name == "0" {
		return always
	}
	return func(_ Node, s state) answer { return when(protocols[name] == s.Protocol) }
}

func toPort(args []string) match {
	return portIn(args, func(s state) uint16 { return s.Dst.Port() })
}

// fromPort is unknown, since clients use any port, unless the range has all ports.
func fromPort(args []string) match {
	if slices.Equal(args, []string{"0:65535"}) {
		return always
	}
	return func(Node, state) answer {
		return cannotTell("the source port is not known: %s", strings.Join(args, " "))
	}
}

// portIn reads ports and ranges like 80,100:200.
func portIn(args []string, of func(state) uint16) match {
	if len(args) != 1 {
		return nil
	}
	type interval struct{ from, to uint16 }
	var intervals []interval
	for part := range strings.SplitSeq(args[0], ",") {
		first, last, isRange := strings.Cut(part, ":")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err1 != nil || err2 != nil {
			return nil
		}
		intervals = append(intervals, interval{uint16(from), uint16(to)})
	}
	return func(_ Node, s state) answer {
		port := of(s)
		return when(slices.ContainsFunc(intervals, func(i interval) bool { return i.from <= port && port <= i.to }))
	}
}

// hasFlags is about the first packet of a connection, which has SYN and no other flag.
func hasFlags(args []string) match {
	if len(args) != 2 {
		return nil
	}
	asked := func(list string) bool { return list == "ALL" || slices.Contains(strings.Split(list, ","), "SYN") }
	syn := args[1] == "SYN" || args[1] == "NONE"
	return constant(syn && asked(args[0]) == (args[1] == "SYN"))
}

func inRange(of func(state) netip.Addr) matcher {
	return func(args []string) match {
		if len(args) != 1 {
			return nil
		}
		first, last, _ := strings.Cut(args[0], "-")
		from, err1 := netip.ParseAddr(first)
		to, err2 := netip.ParseAddr(last)
		if err1 != nil || err2 != nil {
			return nil
		}
		return func(_ Node, s state) answer {
			if !of(s).IsValid() {
				return cannotTell(whichAddress)
			}
			return when(!of(s).Less(from) && !to.Less(of(s)))
		}
	}
}

// inState is about a new connection. DNAT holds as soon as it is translated, SNAT only behind POSTROUTING, so for what the node sends
// to itself.
func inState(args []string) match {
	if len(args) != 1 {
		return nil
	}
	states := strings.Split(args[0], ",")
	return func(_ Node, s state) answer {
		switch {
		case slices.Contains(states, "NEW"), s.translated() && slices.Contains(states, "DNAT"):
			return yes
		case slices.Contains(states, "SNAT"):
			return s.sourceTranslated()
		default:
			return no
		}
	}
}

// hasMark reads value or value/mask.
func hasMark(args []string) match {
	if len(args) != 1 {
		return nil
	}
	value, mask, ok := parseMark(args[0])
	if !ok {
		return nil
	}
	return func(_ Node, s state) answer { return when(s.mark&mask == value) }
}

func parseMark(text string) (value, mask uint32, ok bool) {
	first, second, masked := strings.Cut(text, "/")
	v, err := strconv.ParseUint(first, 0, 32)
	if err != nil {
		return 0, 0, false
	}
	if !masked {
		return uint32(v), ^uint32(0), true
	}
	m, err := strconv.ParseUint(second, 0, 32)
	return uint32(v), uint32(m), err == nil
}

// chance reads all options of statistic. Counting every n-th packet is a chance of 1/n for one of which nothing is known.
func chance(os []option) match {
	p, ok := 0.0, false
	not := false
	for _, o := range os {
		switch o.name {
		case "--probability":
			f, err := strconv.ParseFloat(o.arg(), 64)
			p, ok, not = f, err == nil, o.not
		case "--every":
			n, err := strconv.ParseUint(o.arg(), 10, 32)
			p, ok, not = 1/float64(max(n, 1)), err == nil && n > 0, o.not
		}
	}
	if !ok {
		return func(Node, state) answer { return cannotTell("-m statistic") }
	}
	a := answer{chance: p}
	if not {
		a = a.not()
	}
	return func(Node, state) answer { return a }
}
