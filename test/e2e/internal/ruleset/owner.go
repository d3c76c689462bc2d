package ruleset

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Owner tells whose a chain or set is by its name.
type Owner func(name string) bool

// Agent owns only what begins with CIPA-, its native tables, and what IPVS has at its interface.
func Agent(name string) bool {
	return strings.HasPrefix(name, "CIPA-") || name == "clusterip-proxyagent" || name == devices[0]
}

// KubeProxy owns what begins with KUBE-, and what IPVS has at its interface.
func KubeProxy(name string) bool { return strings.HasPrefix(name, "KUBE-") || name == devices[1] }

// allocated matches the set of the native table that is like CIPA-4-ALLOC.
var allocated = regexp.MustCompile(`(?ms)^table \S+ clusterip-proxyagent set allocated \{\n.*?^table \S+ clusterip-proxyagent \}\n?`)

// Lasting leaves out the members of sets that come and go by themselves: of those with a time-out
// with the traffic, and who has which address whenever an API server comes upon leaked IPAddresses
// and takes them away. Of endpoints in the native table it leaves out the order.
func (s Snapshot) Lasting() Snapshot {
	passing := []string{"CIPA-4-ALLOC", "CIPA-6-ALLOC"}
	for line := range strings.SplitSeq(s["ipset"], "\n") {
		if words := fields(line); len(words) > 1 && words[0] == "create" && slices.Contains(words, "timeout") {
			passing = append(passing, words[1])
		}
	}
	s = maps.Clone(s)
	if text, ok := s["nft"]; ok {
		s["nft"] = unordered(allocated.ReplaceAllString(text, ""))
	}
	return s.filter(func(line string) bool {
		words := fields(line)
		return len(words) < 2 || words[0] != "add" || !slices.Contains(passing, words[1])
	})
}

// numbered matches an endpoint of the native table: front, index and endpoint.
var numbered = regexp.MustCompile(`^(table \S+ clusterip-proxyagent) (?:elements = \{ )?(.+) \. 0x[0-9a-f]{8} : (\S+ \. \d+)(?:,| \})$`)

// remembered matches a client that the native table remembers for a while.
var remembered = regexp.MustCompile(`^table \S+ clusterip-proxyagent .* timeout \d\S*(?: : .*)?(?:,| \})$`)

// unordered leaves clients out, and puts endpoints behind all else, without their indexes: when one
// goes the last one takes its place, so their order tells what was before.
func unordered(text string) string {
	var rest, endpoints []string
	for line := range strings.SplitSeq(text, "\n") {
		if m := numbered.FindStringSubmatch(line); m != nil {
			endpoints = append(endpoints, strings.Join(m[1:], " "))
		} else if !remembered.MatchString(line) {
			rest = append(rest, line)
		}
	}
	return strings.Join(append(rest, slices.Sorted(slices.Values(endpoints))...), "\n")
}

// Of leaves what belongs to an owner: chains with rules, jumps to them, sets, native tables, IPVS.
func (s Snapshot) Of(o Owner) Snapshot {
	return s.filter(func(line string) bool { return o.owns(line) })
}

// Without leaves what does not belong to an owner.
func (s Snapshot) Without(o Owner) Snapshot {
	return s.filter(func(line string) bool { return !o.owns(line) })
}

func (s Snapshot) filter(keep func(line string) bool) Snapshot {
	left := Snapshot{}
	for program, text := range s {
		lines := strings.Split(text, "\n")
		lines = slices.DeleteFunc(lines, func(line string) bool { return !structure(line) && !keep(line) })
		if !slices.Contains([]string{"ipset", "nft", ipvs}, program) {
			lines = strings.Split(tables(strings.Join(lines, "\n")), "\n")
		}
		if text := strings.Join(lines, "\n"); text != "" {
			left[program] = text
		}
	}
	return left
}

// structure is what every iptables-save has.
func structure(line string) bool {
	return strings.HasPrefix(line, "*") || line == "COMMIT" || strings.HasPrefix(line, ":") && !saysSomething(line)
}

func (o Owner) owns(line string) bool {
	words := fields(line)
	switch {
	case strings.HasPrefix(line, ":"):
		return o(strings.TrimPrefix(words[0], ":"))
	case len(words) > 1 && slices.Contains([]string{"-A", "create", "add"}, words[0]):
		return o(words[1]) || o(target(words))
	case len(words) > 2 && words[0] == "table":
		return o(words[2])
	case len(words) > 1 && slices.Contains([]string{"interface", "address", "server", "destination"}, words[0]):
		return o(words[1])
	default:
		return false
	}
}

// target returns where a rule jumps or goes to.
func target(words []string) string {
	for i, word := range words[:len(words)-1] {
		if word == "-j" || word == "-g" {
			return words[i+1]
		}
	}
	return ""
}

// fields splits a line at spaces outside of quotes, so that no comment looks like a target.
func fields(line string) []string {
	quoted, escaped := false, false
	return strings.FieldsFunc(line, func(r rune) bool {
		switch {
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
		case r == '"':
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
}
