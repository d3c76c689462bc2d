package trace

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables"
)

// Ruleset are the tables of one variant and family of iptables, by name. The zero value has none.
type Ruleset map[string]table

// table holds chains by name.
type table map[string]*chain

// chain is a list of rules. policy is what becomes of a packet at its end: empty for a chain that is not built in.
type chain struct {
	policy string
	rules  []rule
}

// rule is one rule: when all matches hold, the target is done.
type rule struct {
	text    string
	matches []match
	// target is the name of a chain or of an extension; empty for a rule that only counts. isGoto: the chain does not come back here.
	target string
	isGoto bool
	args   []option
}

// Parse reads the output of iptables-save or ip6tables-save, of any number of tables. Rules that it does not understand are kept;
// only lines that are no rules at all are an error.
func Parse(text string) (Ruleset, error) {
	r := Ruleset{}
	var current table
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "*"); ok {
			current = table{}
			r[name] = current
		} else if err := current.add(line); err != nil {
			return nil, fmt.Errorf("reading the rule %q: %w", line, err)
		}
	}
	return r, nil
}

// Rules returns how many rules there are in all tables.
func (r Ruleset) Rules() (n int) {
	for _, t := range r {
		for _, c := range t {
			n += len(c.rules)
		}
	}
	return n
}

func (t table) add(line string) error {
	first, rest, _ := strings.Cut(line, " ")
	switch {
	case line == "COMMIT", line == "", strings.HasPrefix(line, "#"):
		return nil
	case t == nil:
		return errors.New("it belongs to no table")
	case strings.HasPrefix(first, ":"):
		policy, _, _ := strings.Cut(rest, " ")
		t.chain(first[1:]).policy = strings.TrimPrefix(policy, "-")
		return nil
	case first == "-A":
		name, body, _ := strings.Cut(rest, " ")
		c := t.chain(name)
		c.rules = append(c.rules, parseRule(line, body))
		return nil
	default:
		return errors.New("it is no rule")
	}
}

func (t table) chain(name string) *chain {
	if t[name] == nil {
		t[name] = &chain{}
	}
	return t[name]
}

// parseRule reads what stands behind the name of the chain: the matches of each module, then the target with its options.
func parseRule(text, body string) rule {
	r, module := rule{text: text}, ""
	all := options(iptables.Words(body))
	for i, o := range all {
		switch o.name {
		case "-m":
			if module = o.arg(); !slices.Contains(modules, module) {
				r.matches = append(r.matches, matchOf("", option{name: "-m " + module}))
			}
		case "-j", "-g":
			r.target, r.isGoto, r.args = o.arg(), o.name == "-g", all[i+1:]
			return r
		default:
			r.matches = append(r.matches, matchOf(module, o))
		}
	}
	return r
}

// option is one option with its arguments, as in "! --ctstate NEW".
type option struct {
	not  bool
	name string
	args []string
}

// arg is the first argument, empty without.
func (o option) arg() string { return strings.Join(o.args[:min(1, len(o.args))], "") }

// options groups words. An option has all arguments up to the next option; a comment is one word, whatever it looks like.
func options(words []string) (all []option) {
	for len(words) > 0 {
		o := option{not: words[0] == "!" && len(words) > 1}
		if o.not {
			words = words[1:]
		}
		o.name, words = words[0], words[1:]
		n := slices.IndexFunc(words, func(w string) bool { return w == "!" || strings.HasPrefix(w, "-") })
		if n < 0 {
			n = len(words)
		}
		if o.name == "--comment" {
			n = min(1, len(words))
		}
		o.args, words = words[:n], words[n:]
		all = append(all, o)
	}
	return all
}

// value is the argument of an option, empty when it is not there.
func value(all []option, name string) string {
	for _, o := range all {
		if o.name == name {
			return o.arg()
		}
	}
	return ""
}
