package trace

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// match is one condition of a rule. It returns the probability with which it holds, and an error when that cannot be told.
type match func(w Node, s state) (chance float64, err error)

// matchers read the first argument of the known options, by module and name. Options without a module stand before the first -m. They return
// nil when they do not understand the argument.
var matchers = map[string]func(arg string) match{
	" -s": inPrefix(func(s state) netip.Addr { return s.Src }),
	" -d": inPrefix(func(s state) netip.Addr { return s.Dst.Addr() }),
	" -i": onInterface(func(s state) string { return s.In }),
	" -o": onInterface(func(s state) string { return s.out }),
	" -p": hasProtocol,

	"comment --comment":   func(string) match { return probably(1) },
	"tcp --dport":         toPort,
	"udp --dport":         toPort,
	"sctp --dport":        toPort,
	"multiport --dports":  toPort,
	"addrtype --src-type": isLocal(func(s state) netip.Addr { return s.Src }),
	"addrtype --dst-type": isLocal(func(s state) netip.Addr { return s.Dst.Addr() }),
	"mark --mark":         hasMark,
	"state --state":       inState,
	"conntrack --ctstate": inState,

	"statistic --mode": func(arg string) match {
		if arg == "random" {
			return probably(1)
		}
		return nil
	},
	"statistic --probability": func(arg string) match {
		p, err := strconv.ParseFloat(arg, 64)
		if err != nil {
			return nil
		}
		return probably(p)
	},
}

// modules are those of the known options. Others may match without any option.
var modules = []string{"comment", "tcp", "udp", "sctp", "multiport", "addrtype", "mark", "state", "conntrack", "statistic", "set"}

// matchOf turns an option into a condition.
func matchOf(module string, o option) match {
	var m match
	switch read := matchers[module+" "+o.name]; {
	case module == "set" && o.name == "--match-set" && len(o.args) == 2:
		m = inSet(o.args[0], strings.Split(o.args[1], ","))
	case read != nil && len(o.args) == 1:
		m = read(o.arg())
	}
	if m == nil {
		return func(Node, state) (float64, error) { return 0, fmt.Errorf("%s is not known here", o.name) }
	}
	if !o.not {
		return m
	}
	return func(w Node, s state) (float64, error) {
		chance, err := m(w, s)
		return 1 - chance, err
	}
}

func probably(chance float64) match { return func(Node, state) (float64, error) { return chance, nil } }

// when is a match that always knows its answer.
func when(holds func(state) bool) match {
	return func(_ Node, s state) (float64, error) { return oneIf(holds(s)), nil }
}

func oneIf(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

var errWhichAddress = errors.New("it is not known which of its addresses the node gave it")

func inPrefix(of func(state) netip.Addr) func(string) match {
	return func(arg string) match {
		p, err := netip.ParsePrefix(arg)
		if a, errAddr := netip.ParseAddr(arg); errAddr == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil
		}
		return func(_ Node, s state) (float64, error) {
			if !of(s).IsValid() {
				return 0, errWhichAddress
			}
			return oneIf(p.Contains(of(s))), nil
		}
	}
}

// onInterface matches a name, or with a plus at its end all names with that prefix. A packet that has no such interface has an empty name.
func onInterface(of func(state) string) func(string) match {
	return func(arg string) match {
		start, isPrefix := strings.CutSuffix(arg, "+")
		return when(func(s state) bool { return of(s) == start || isPrefix && strings.HasPrefix(of(s), start) })
	}
}

func hasProtocol(arg string) match {
	return when(func(s state) bool { return strings.EqualFold(arg, s.Protocol.String()) })
}

// toPort reads ports and ranges like 80,100:200.
func toPort(arg string) match {
	var ranges [][2]uint64
	for part := range strings.SplitSeq(arg, ",") {
		first, last, isRange := strings.Cut(part, ":")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err1 != nil || err2 != nil {
			return nil
		}
		ranges = append(ranges, [2]uint64{from, to})
	}
	return when(func(s state) bool {
		port := uint64(s.Dst.Port())
		return slices.ContainsFunc(ranges, func(r [2]uint64) bool { return r[0] <= port && port <= r[1] })
	})
}

// isLocal knows the type LOCAL alone, which is the one that rules about Services use.
func isLocal(of func(state) netip.Addr) func(string) match {
	return func(arg string) match {
		if arg != "LOCAL" {
			return nil
		}
		return func(w Node, s state) (float64, error) {
			if !of(s).IsValid() { // one of the node's, in any case
				return 1, nil
			}
			return oneIf(w.Local(of(s))), nil
		}
	}
}

// inState is about a new connection. DNAT holds as soon as it is translated.
func inState(arg string) match {
	states := strings.Split(arg, ",")
	return func(_ Node, s state) (float64, error) {
		known := slices.Contains(states, "NEW") || s.Dst != s.original && slices.Contains(states, "DNAT")
		if !known && s.source != "" && slices.Contains(states, "SNAT") {
			return 0, errWhichAddress
		}
		return oneIf(known), nil
	}
}

// hasMark reads value or value/mask.
func hasMark(arg string) match {
	value, mask, ok := parseMark(arg)
	if !ok {
		return nil
	}
	return when(func(s state) bool { return s.mark&mask == value })
}

func parseMark(text string) (value, mask uint32, ok bool) {
	first, second, masked := strings.Cut(text, "/")
	if !masked {
		second = "0xffffffff"
	}
	v, err1 := strconv.ParseUint(first, 0, 32)
	m, err2 := strconv.ParseUint(second, 0, 32)
	return uint32(v), uint32(m), err1 == nil && err2 == nil
}

// inSet matches when a set has the parts of the packet that its type and the directions select.
func inSet(name string, directions []string) match {
	return func(w Node, s state) (float64, error) {
		kind, err := w.Kind(name)
		if err != nil {
			return 0, err
		}
		entry, err := entryOf(kind, directions, s)
		if err != nil {
			return 0, err
		}
		has, err := w.Has(name, entry)
		return oneIf(has), err
	}
}

// entryOf returns the entry to look up in a set of a type. Each part of the type uses the next direction.
func entryOf(kind string, directions []string, s state) (string, error) {
	_, list, _ := strings.Cut(kind, ":")
	var words []string
	for i, part := range strings.Split(list, ",") {
		source := i >= len(directions) || directions[i] == "src"
		switch {
		case part == "port" && !source && kind == "bitmap:port":
			words = append(words, fmt.Sprint(s.Dst.Port()))
		case part == "port" && !source:
			words = append(words, fmt.Sprintf("%s:%d", strings.ToLower(s.Protocol.String()), s.Dst.Port()))
		case (part == "ip" || part == "net") && !source:
			words = append(words, s.Dst.Addr().String())
		case (part == "ip" || part == "net") && i < len(directions) && s.Src.IsValid():
			words = append(words, s.Src.String())
		default:
			return "", fmt.Errorf("what a set of type %s holds of this packet is not known", kind)
		}
	}
	return strings.Join(words, ","), nil
}
