package bundle

import (
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// text is a text with pseudonyms in the place of names. It finds a name wherever neither a letter
// nor a digit is beside it, so also as a part of a host name or of the name of a pod; behind the
// escapes of JSON, Go and URLs; the longest where several begin. What follows a namespace and a
// slash is a Service, which may not exist any more. Addresses are kept as they are.
func (n *names) text(words string) string {
	if n == nil {
		return words
	}
	if n.user != nil {
		words = n.user.Replace(words)
	}
	var out strings.Builder
	for i := 0; i < len(words); {
		if begins(words, i) {
			if size := addressIn(words[i:]); size > 0 {
				out.WriteString(words[i : i+size])
				i += size
				continue
			}
			if size := n.nameIn(words[i:]); size > 0 {
				pseudonym := n.of[words[i:i+size]]
				out.WriteString(pseudonym)
				if i += size; strings.HasPrefix(pseudonym, ofNamespace) {
					n.add(ofService, serviceIn(words[i:]))
				}
				continue
			}
		}
		out.WriteByte(words[i])
		i++
	}
	return out.String()
}

// begins reports whether a word may begin at i: what is before it is no letter and no digit, or
// belongs to an escape.
func begins(words string, i int) bool {
	if !alphanumeric(words[i]) {
		return false
	}
	return i == 0 || !alphanumeric(words[i-1]) ||
		i >= 2 && words[i-2] == '\\' && strings.IndexByte("abfnrtv", words[i-1]) >= 0 ||
		i >= 3 && words[i-3] == '%' && hex(words[i-2:i]) ||
		i >= 4 && words[i-4:i-2] == `\x` && hex(words[i-2:i]) ||
		i >= 6 && words[i-6:i-4] == `\u` && hex(words[i-4:i]) ||
		endsSequence(words[:i])
}

// endsSequence reports whether a text ends with what colours it in a terminal: [31m, whatever has
// become of the character before that.
func endsSequence(words string) bool {
	if words == "" || !alphanumeric(words[len(words)-1]) {
		return false
	}
	return strings.HasSuffix(strings.TrimRight(words[max(0, len(words)-mostOfSequence):len(words)-1], "0123456789;"), "[")
}

// mostOfSequence is how many characters such a sequence has at most.
const mostOfSequence = 24

// nameIn is the size of the longest name with which a text begins, 0 without one.
func (n *names) nameIn(words string) (size int) {
	for end := 1; end <= min(len(words), n.longest); end++ {
		if !inName(words[end-1]) {
			break
		}
		if (end == len(words) || !alphanumeric(words[end])) && n.of[words[:end]] != "" {
			size = end
		}
	}
	return size
}

// inName reports whether a name has such a character. Users have any (names.addUser).
func inName(c byte) bool { return alphanumeric(c) || strings.IndexByte("-./_@:", c) >= 0 }

// resources are what may follow a namespace in a path of the API, beside services.
var resources = []string{"configmaps", "endpoints", "endpointslices", "events", "leases", "pods", "secrets", "services"}

// serviceIn is the name of the Service in a text that follows a namespace, as in shop/web, and in
// namespaces/shop/services/web; empty without one.
func serviceIn(words string) string {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(words, "/services"), "/")
	if !ok {
		return ""
	}
	end := 0
	for end < len(rest) && (alphanumeric(rest[end]) || rest[end] == '-') {
		end++
	}
	name := strings.TrimRight(rest[:end], "-")
	if slices.Contains(resources, name) || len(name) > validation.DNS1123LabelMaxLength || strings.ToLower(name) != name {
		return ""
	}
	return name
}

// mostOfAddress is how many characters an address has at most.
const mostOfAddress = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")

// addressIn is the size of the address with which a text begins, 0 without one.
func addressIn(words string) int {
	end := 0
	for end < len(words) && end <= mostOfAddress && (hex(words[end:end+1]) || words[end] == ':' || words[end] == '.') {
		end++
	}
	if end < len(words) && (alphanumeric(words[end]) || words[end] == '-') {
		return 0
	}
	text := strings.TrimRight(words[:end], ".")
	if before, ended := strings.CutSuffix(text, ":"); ended && !strings.HasSuffix(before, ":") {
		text = before
	}
	if host, _, ok := strings.Cut(text, ":"); ok && strings.Count(text, ":") == 1 { // with a port
		text = host
	}
	if _, err := netip.ParseAddr(text); err != nil {
		return 0
	}
	return len(text)
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func hex(text string) bool {
	return strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

// value is text for all strings of what was decoded from JSON. Names of fields are kept; keys of
// labels and annotations are not.
func (n *names) value(v any) any {
	switch v := v.(type) {
	case string:
		return n.text(v)
	case []any:
		for i := range v {
			v[i] = n.value(v[i])
		}
	case map[string]any:
		for key, one := range v {
			if key == "labels" || key == "annotations" || key == "matchLabels" {
				v[key] = n.keys(one)
				continue
			}
			v[key] = n.value(one)
		}
	}
	return v
}

// keys is value for a map whose keys are texts too.
func (n *names) keys(v any) any {
	all, ok := v.(map[string]any)
	if !ok {
		return n.value(v)
	}
	out := make(map[string]any, len(all))
	for key, one := range all {
		out[n.text(key)] = n.value(one)
	}
	return out
}
