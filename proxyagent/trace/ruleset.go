package trace

import (
	"bufio"
	"fmt"
	"strings"
)

// Ruleset are the tables of one variant and family of iptables. The zero value has none. It may be used by several goroutines.
type Ruleset struct{ tables map[string]table }

// table holds chains by name.
type table map[string]*chain

// chain is a list of rules. policy is what becomes of a packet at its end: empty for a chain that is not built in.
type chain struct {
	name, policy string
	rules        []rule
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

// Parse reads the output of iptables-save or ip6tables-save, of any number of tables. Rules that it does not understand are kept and
// are "cannot tell" for Walk; only lines that are no rules at all are an error.
func Parse(text string) (Ruleset, error) {
	r := Ruleset{tables: map[string]table{}}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	var current table
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if name, ok := strings.CutPrefix(line, "*"); ok {
			current = table{}
			r.tables[name] = current
			continue
		}
		if err := current.line(line); err != nil {
			return Ruleset{}, fmt.Errorf("reading line %d of the rules, %q: %w", n, line, err)
		}
	}
	if err := lines.Err(); err != nil {
		return Ruleset{}, fmt.Errorf("reading the rules: %w", err)
	}
	return r, nil
}

// Rules returns how many rules there are in all tables.
func (r Ruleset) Rules() (n int) {
	for _, t := range r.tables {
		for _, c := range t {
			n += len(c.rules)
		}
	}
	return n
}

func (t table) line(line string) error {
	switch {
	case line == "", strings.HasPrefix(line, "#"), line == "COMMIT":
		return nil
	case t == nil:
		return fmt.Errorf("it belongs to no table")
	case strings.HasPrefix(line, ":"):
		name, rest, _ := strings.Cut(line[1:], " ")
		policy, _, _ := strings.Cut(rest, " ")
		t.chain(name).policy = strings.TrimPrefix(policy, "-")
		return nil
	case strings.HasPrefix(line, "-A "):
		name, body, _ := strings.Cut(line[len("-A "):], " ")
		c := t.chain(name)
		c.rules = append(c.rules, parseRule(line, body))
		return nil
	default:
		return fmt.Errorf("it is no rule")
	}
}

func (t table) chain(name string) *chain {
	if t[name] == nil {
		t[name] = &chain{name: name}
	}
	return t[name]
}

// parseRule reads what stands after the name of the chain: options, then matches with theirs, then the target with its own.
func parseRule(text, body string) rule {
	r := rule{text: text}
	module, rest := "", options(tokens(body))
	var of []option
	flush := func(next string) {
		r.matches = append(r.matches, matchesOf(module, of)...)
		module, of = next, nil
	}
	for i, o := range rest {
		switch o.name {
		case "-m", "--match":
			flush(o.arg())
		case "-j", "--jump", "-g", "--goto":
			flush("")
			r.target, r.isGoto, r.args = o.arg(), o.name == "-g" || o.name == "--goto", rest[i+1:]
			return r
		default:
			of = append(of, o)
		}
	}
	flush("")
	return r
}

// token is one word of a rule as iptables-save prints it.
type token struct {
	text string
	// quoted tokens are never options, whatever they look like.
	quoted bool
}

// tokens splits a rule. iptables-save puts what is not plain into double quotes and escapes quotes and backslashes within.
func tokens(rule string) (ts []token) {
	for rest := strings.TrimLeft(rule, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		var t token
		if rest[0] == '"' {
			t, rest = quotedToken(rest[1:])
		} else {
			t.text, rest, _ = strings.Cut(rest, " ")
		}
		ts = append(ts, t)
	}
	return ts
}

// quotedToken reads up to the closing quote, or to the end where there is none.
func quotedToken(s string) (t token, rest string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return token{b.String(), true}, s[i+1:]
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return token{b.String(), true}, ""
}

// isOption reports whether a token begins something new instead of continuing an option.
func (t token) isOption() bool { return !t.quoted && (strings.HasPrefix(t.text, "-") || t.text == "!") }

// option is one option with its arguments, as in "! --ctstate NEW".
type option struct {
	not  bool
	name string
	args []string
}

// String writes it as iptables-save does, but for quotes.
func (o option) String() string {
	not := ""
	if o.not {
		not = "! "
	}
	return not + strings.Join(append([]string{o.name}, o.args...), " ")
}

// arg is the first argument, empty without.
func (o option) arg() string {
	if len(o.args) == 0 {
		return ""
	}
	return o.args[0]
}

// arity is how many arguments those options have whose arguments could be taken for options.
var arity = map[string]int{
	"--comment": 1, "--log-prefix": 1, "--nflog-prefix": 1, "--string": 1, "--hex-string": 1, "--match-set": 2, "-f": 0,
}

// options groups tokens. An option that is not known has all arguments up to the next option.
func options(ts []token) (os []option) {
	for len(ts) > 0 {
		var o option
		if ts[0].text == "!" && !ts[0].quoted && len(ts) > 1 {
			o.not, ts = true, ts[1:]
		}
		o.name, ts = ts[0].text, ts[1:]
		n := argsOf(o.name, ts)
		for _, t := range ts[:n] {
			o.args = append(o.args, t.text)
		}
		ts = ts[n:]
		os = append(os, o)
	}
	return os
}

func argsOf(name string, ts []token) (n int) {
	if n, known := arity[name]; known {
		return min(n, len(ts))
	}
	for n < len(ts) && !ts[n].isOption() {
		n++
	}
	return n
}
