package renumber

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Elsewhere is a place outside of Services that knows the old ranges and not the new ones.
type Elsewhere struct {
	// Where is the object and the field, What the part of its value that lies in an old range.
	Where string `json:"where"`
	What  string `json:"what"`
	// Change says what to do there.
	Change string `json:"change"`
}

// mostElsewhere is how many places are listed.
const mostElsewhere = 100

// names is one value somewhere that may name ranges.
type names struct {
	where, value, change string
	// always: it matters whatever the value is.
	always bool
}

// elsewhere returns the places that name an address or a part of an old range, and of which no
// other part covers the new ranges of that family. It is pure.
func elsewhere(from, to []netip.Prefix, all []names) (out []Elsewhere) {
	for _, n := range all {
		said := prefixesIn(n.value)
		var old []string
		for _, p := range said {
			if slices.ContainsFunc(from, p.Overlaps) && !coversAll(said, to, p.Addr().Is4()) {
				old = append(old, p.String())
			}
		}
		if len(old) == 0 && !n.always {
			continue
		}
		if len(out) == mostElsewhere {
			return append(out, Elsewhere{Where: "others", Change: fmt.Sprintf("more than %d places know the old ranges: change these, then make the plan again", mostElsewhere)})
		}
		out = append(out, Elsewhere{Where: n.where, What: strings.Join(old, ","), Change: n.change})
	}
	return out
}

// coversAll reports whether each range of a family lies in one of the prefixes.
func coversAll(said, to []netip.Prefix, is4 bool) bool {
	return !slices.ContainsFunc(to, func(t netip.Prefix) bool {
		return t.Addr().Is4() == is4 && !slices.ContainsFunc(said, func(p netip.Prefix) bool { return p.Bits() <= t.Bits() && p.Contains(t.Addr()) })
	})
}

// mostValue is how many bytes of a value are looked at, and mostPrefixes how many ranges in it.
const mostValue, mostPrefixes = 16 << 10, 256

// prefixesIn are the CIDRs and addresses of a list with commas, blanks or semicolons between them.
func prefixesIn(value string) (out []netip.Prefix) {
	value = value[:min(len(value), mostValue)]
	for word := range strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(",; \t\r\n\"'", r) }) {
		if len(out) == mostPrefixes {
			break
		}
		if p, err := netip.ParsePrefix(word); err == nil {
			out = append(out, p.Masked())
		} else if a, err := netip.ParseAddr(word); err == nil && a.Zone() == "" {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return out
}

// Changes of what pods are started with.
const (
	changeArgument  = "add the new range, or set it when the default range is replaced"
	changeProxy     = "add the new range, or programs send connections to Services through the proxy"
	changeAdvertise = "routers learn of the new addresses by BGP: have their filters, and firewalls, take the new range"
)

// namesInPod are the values that containers are started with: flags, and the variables that keep
// connections from an HTTP proxy.
func namesInPod(what string, pod *corev1.PodSpec) (out []names) {
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		where := fmt.Sprintf("%s, container %s", what, c.Name)
		words := slices.Concat(c.Command, c.Args)
		for i, word := range words {
			flag, value, is := strings.Cut(word, "=")
			if !strings.HasPrefix(flag, "-") {
				continue
			}
			if !is && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
				value = words[i+1]
			}
			on := strings.TrimLeft(flag, "-") == "advertise-cluster-ip" && (value == "" || value == "true")
			if change := changeArgument; on {
				out = append(out, names{where: where + ", " + flag, change: changeAdvertise, always: true})
			} else {
				out = append(out, names{where: where + ", " + flag, value: value, change: change})
			}
		}
		for _, v := range c.Env {
			if strings.EqualFold(v.Name, "NO_PROXY") {
				out = append(out, names{where: where + ", variable " + v.Name, value: v.Value, change: changeProxy})
			}
		}
	}
	return out
}
