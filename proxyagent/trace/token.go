package trace

import "strings"

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
