package bundle

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// names has the pseudonyms of one bundle. A word is one pseudonym, whatever is called so: a
// namespace and a Service of one name stay alike, in texts that do not say which of both they mean.
// Numbers are given in a random order, and nothing is computed from a name, so that no guess can be
// tried against a pseudonym. A nil *names keeps all names.
type names struct {
	of      map[string]string
	count   map[string]int // by kind
	longest int
	kept    map[string]bool
	// user is replaced wherever it stands: it may have any character.
	user *strings.Replacer
}

// newNames returns names that keep some.
func newNames(kept ...string) *names {
	n := &names{of: map[string]string{}, count: map[string]int{}, kept: map[string]bool{}}
	for _, name := range append(kept, common...) {
		n.kept[name] = true
	}
	return n
}

// Kinds of names, as pseudonyms begin.
const (
	ofNamespace   = "namespace"
	ofService     = "service"
	ofNode        = "node"
	ofHost        = "host"
	ofUser        = "user"
	ofRange       = "range"
	ofPolicy      = "policy"
	ofReservation = "reservation"
	ofLabel       = "label"
	ofValue       = "value"
)

// common are names that every cluster has, and words that tell nothing of one.
var common = []string{
	metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease", "kubernetes", "kube-dns", "localhost", "true", "false", "control-plane",
	"ghcr.io", "docker.io", "quay.io", "registry.k8s.io",
}

// add gives pseudonyms to names that have none yet. Addresses and numbers are no names.
func (n *names) add(kind string, all ...string) {
	if n == nil {
		return
	}
	all = slices.DeleteFunc(slices.Clone(all), func(name string) bool { return n.of[name] != "" || !n.covers(name) })
	slices.Sort(all)
	all = slices.Compact(all)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) // its generator is seeded by the system, and cannot be predicted
	for _, name := range all {
		n.count[kind]++
		n.of[name], n.longest = fmt.Sprintf("%s-%d", kind, n.count[kind]), max(n.longest, len(name))
	}
}

// addHost is add for a host, of which texts may have the first label alone.
func (n *names) addHost(kind string, all ...string) {
	n.add(kind, all...)
	for _, name := range all {
		if short, _, long := strings.Cut(name, "."); long && n != nil && n.of[name] != "" && n.of[short] == "" && n.covers(short) {
			n.of[short] = n.of[name]
		}
	}
}

// longestName is that of a label's key. What is longer names no object: an Event may say so all the
// same, of any length, and each word of all texts would be compared with it.
const longestName = validation.DNS1123SubdomainMaxLength + len("/") + validation.LabelValueMaxLength

// covers reports whether a text can stand for what has to be covered.
func (n *names) covers(text string) bool {
	if n.kept[text] || len(text) > longestName || !strings.ContainsFunc(text, unicode.IsLetter) {
		return false
	}
	_, err := netip.ParseAddr(text)
	return err != nil
}

// addUser gives a pseudonym to the user, as errors and JSON quote the name too. One that every
// installer of Kubernetes makes is no name.
func (n *names) addUser(name string) {
	if n == nil || n.kept[name] || !strings.ContainsFunc(name, unicode.IsLetter) {
		return
	}
	if n.covers(name) && alphanumeric(name[0]) && !strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII || !inName(byte(r)) }) {
		n.add(ofUser, name) // text finds it, and not in the middle of a word
		return
	}
	quoted := strings.Trim(strconv.Quote(name), `"`)
	ascii := strings.Trim(strconv.QuoteToASCII(name), `"`)
	n.user = strings.NewReplacer(ascii, ofUser+"-1", quoted, ofUser+"-1", name, ofUser+"-1")
}

// addSelectors gives pseudonyms to what selectors choose by. The keys of Kubernetes are no names.
func (n *names) addSelectors(all ...*metav1.LabelSelector) {
	for _, s := range all {
		if s == nil {
			continue
		}
		for key, value := range s.MatchLabels {
			n.addLabel(key, value)
		}
		for _, r := range s.MatchExpressions {
			n.addLabel(r.Key, r.Values...)
		}
	}
}

func (n *names) addLabel(key string, values ...string) {
	if !isKnown(key) {
		n.add(ofLabel, key)
	}
	n.add(ofValue, values...)
}

// known are the domains of labels, annotations and finalizers that are not a tenant's choice.
var known = []string{"clusterip-operator.io", "kubernetes.io", "k8s.io", "azure.com", "enforcer"}

func isKnown(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	return found && slices.ContainsFunc(known, func(end string) bool { return domain == end || strings.HasSuffix(domain, "."+end) })
}
