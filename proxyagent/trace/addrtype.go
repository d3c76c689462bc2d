package trace

import (
	"net/netip"
	"slices"
	"strings"
)

// ofType knows the types of addresses that rules ask for in practice.
func ofType(of func(state) netip.Addr) matcher {
	return func(args []string) match {
		if len(args) != 1 {
			return nil
		}
		types := strings.Split(args[0], ",")
		return func(w World, s state) answer {
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

// isOneOf6 does what the kernel does for IPv6: it wants all types that an address tells of itself, and one of those that routing tells.
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

// needsRouting reports whether World cannot tell a type.
func needsRouting(name string) bool {
	return !slices.Contains([]string{"LOCAL", "UNICAST", "MULTICAST", "UNSPEC"}, name)
}
