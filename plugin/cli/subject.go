package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
)

// Kinds of subjects, as they are printed.
const (
	KindService   = "service"
	KindNamespace = "namespace"
	KindRange     = "servicecidr"
	KindPolicy    = "servicecidrpolicy"
	KindAddress   = "ipaddress"
	KindNodePort  = "nodeport"
)

// words are what users write for a kind: kubectl's names, and those of our commands.
var words = map[string][]string{
	KindService:   {"service", "services", "svc"},
	KindNamespace: {"namespace", "namespaces", "ns"},
	KindRange:     {"servicecidr", "servicecidrs", "range", "ranges"},
	KindPolicy:    {"servicecidrpolicy", "servicecidrpolicies", "scp", "policy", "policies"},
	KindNodePort:  {"nodeport", "nodeports", "node-port", "node-ports"},
	KindAddress:   {"ipaddress", "ipaddresses", "ip", "address", "addresses"},
}

// KindOf is the kind that a user means by a word, which a group may follow as in -o name; empty for
// other words.
func KindOf(word string) string {
	word, _, _ = strings.Cut(strings.ToLower(word), ".")
	for kind, all := range words {
		if slices.Contains(all, word) {
			return kind
		}
	}
	return ""
}

// Subject is an object that a user names.
type Subject struct{ Kind, Namespace, Name string }

// ParseSubject reads TYPE/NAME or TYPE/NAMESPACE/NAME. A Service without a namespace is in that
// one. Its error says what is wrong with a text of a known type; known is false for other texts.
func ParseSubject(text, namespace string) (s Subject, known bool, err error) {
	word, rest, slash := strings.Cut(text, "/")
	kind := KindOf(word)
	if kind == "" || !slash {
		return s, false, nil
	}
	s = Subject{Kind: kind, Name: rest}
	if kind == KindService {
		s.Namespace = namespace
		if before, after, ok := strings.Cut(rest, "/"); ok {
			s.Namespace, s.Name = before, after
		}
	}
	return s, true, s.validate(text)
}

// validate checks what would become a part of a request's path.
func (s Subject) validate(text string) error {
	if s.Kind == KindAddress {
		return nil // what reads it, parses it
	}
	if s.Kind == KindNodePort {
		if n, err := strconv.ParseUint(s.Name, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%.300q names no node port; write nodeport/NUMBER, from 1 to 65535", text)
		}
		return nil
	}
	lost := s.Kind == KindService && s.Namespace == ""
	if lost || s.Name == "" || len(content.IsPathSegmentName(s.Name)) > 0 || len(s.Name) > 253 {
		form := map[string]string{KindService: "service/NAME with --namespace, or service/NAMESPACE/NAME", KindRange: "range/NAME", KindPolicy: "policy/NAME", KindNamespace: "namespace/NAME"}
		return fmt.Errorf("%.300q names no %s; write %s", text, s.Kind, form[s.Kind])
	}
	if s.Kind == KindService {
		return ValidNamespace(s.Namespace)
	}
	return nil
}

// ValidNamespace returns an error if no namespace can have the name.
func ValidNamespace(name string) error {
	if problems := validation.ValidateNamespaceName(name, false); len(problems) > 0 {
		return fmt.Errorf("no namespace can be called %.100q: %s", name, problems[0])
	}
	return nil
}
