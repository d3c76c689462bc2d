package trace

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// answer is the result of a match. The zero value is no.
type answer struct {
	// chance is the probability with which it holds: 0 is no, 1 is yes.
	chance float64
	// unknown is the reason why the answer is unknown; chance has no meaning then.
	unknown string
}

var (
	yes = answer{chance: 1}
	no  = answer{}
)

func cannotTell(format string, args ...any) answer {
	return answer{unknown: fmt.Sprintf(format, args...)}
}

func when(holds bool) answer {
	if holds {
		return yes
	}
	return no
}

// not is the answer of the match with an exclamation mark.
func (a answer) not() answer {
	if a.unknown == "" {
		a.chance = 1 - a.chance
	}
	return a
}

// ofType has the address types that rules use in practice.
func ofType(of func(state) netip.Addr) matcher {
	return func(args []string) match {
		if len(args) != 1 {
			return nil
		}
		types := strings.Split(args[0], ",")
		return func(w Node, s state) answer {
			a := of(s)
			if !a.IsValid() { // one of the node's, in any case
				return when(slices.Contains(types, "LOCAL"))
			}
			local, err := w.Local(a)
			switch {
			case err != nil:
				return cannotTell("whether %s is an address of this node: %v", a, err)
			case a.Is6():
				return isOneOf6(a, local, types)
			default:
				return isOneOf4(a, local, types)
			}
		}
	}
}

// isOneOf4 reports whether an address has one of the types. In IPv4 each has exactly one.
func isOneOf4(a netip.Addr, local bool, types []string) answer {
	switch {
	case local:
		return when(slices.Contains(types, "LOCAL"))
	case a.IsMulticast():
		return when(slices.Contains(types, "MULTICAST"))
	case a.IsUnspecified():
		return when(slices.Contains(types, "UNSPEC"))
	case slices.ContainsFunc(types, needsRouting):
		return cannotTell("whether %s is %s", a, strings.Join(types, " or "))
	default:
		return when(slices.Contains(types, "UNICAST"))
	}
}

// isOneOf6 does what the kernel does for IPv6: all types that follow from the address alone have to match, and one of those that need routing.
func isOneOf6(a netip.Addr, local bool, types []string) answer {
	for name, has := range map[string]bool{
		"MULTICAST": a.IsMulticast(), "UNICAST": !a.IsMulticast() && !a.IsUnspecified(), "UNSPEC": a.IsUnspecified(),
	} {
		if slices.Contains(types, name) && !has {
			return no
		}
	}
	switch wantsLocal := slices.Contains(types, "LOCAL"); {
	case wantsLocal && local:
		return yes
	case slices.Contains(types, "ANYCAST"), slices.Contains(types, "UNREACHABLE"):
		return cannotTell("whether %s is %s", a, strings.Join(types, " or "))
	default:
		return when(!wantsLocal)
	}
}

// needsRouting reports whether a type depends on routing.
func needsRouting(name string) bool {
	return !slices.Contains([]string{"LOCAL", "UNICAST", "MULTICAST", "UNSPEC"}, name)
}

// inSet matches when a set has the parts of the packet that its type and the directions select.
func inSet(args []string) match {
	if len(args) != 2 {
		return nil
	}
	name, directions := args[0], strings.Split(args[1], ",")
	return func(w Node, s state) answer {
		kind, err := w.Kind(name)
		if err != nil {
			return cannotTell("what is in the set %s: %v", name, err)
		}
		entry, err := entryOf(kind, directions, s)
		if err != nil {
			return cannotTell("what is in the set %s: %v", name, err)
		}
		has, err := w.Has(name, entry)
		if err != nil {
			return cannotTell("whether %s is in the set %s: %v", entry, name, err)
		}
		return when(has)
	}
}

// entryOf returns the entry to look up in a set of a type. Each part of the type uses the next direction.
func entryOf(kind string, directions []string, s state) (string, error) {
	_, list, ok := strings.Cut(kind, ":")
	parts := strings.Split(list, ",")
	if !ok || len(parts) > len(directions) {
		return "", fmt.Errorf("its type %s is not understood", kind)
	}
	words := make([]string, len(parts))
	for i, part := range parts {
		word, err := partOf(kind, part, directions[i], s)
		if err != nil {
			return "", err
		}
		words[i] = word
	}
	return strings.Join(words, ","), nil
}

func partOf(kind, part, direction string, s state) (string, error) {
	source := direction == "src"
	switch {
	case part == "port" && source:
		return "", fmt.Errorf("the source port is not known")
	case kind == "bitmap:port":
		return fmt.Sprint(s.Dst.Port()), nil
	case part == "port":
		return fmt.Sprintf("%s:%d", strings.ToLower(s.Protocol.String()), s.Dst.Port()), nil
	case source && !s.Src.IsValid():
		return "", errors.New(whichAddress)
	case (part == "ip" || part == "net") && source:
		return s.Src.String(), nil
	case part == "ip" || part == "net":
		return s.Dst.Addr().String(), nil
	default:
		return "", fmt.Errorf("its type %s is not understood", kind)
	}
}
