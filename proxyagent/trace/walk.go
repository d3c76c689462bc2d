package trace

import (
	"errors"
	"fmt"
	"slices"
)

// Path is what Walk found.
type Path struct {
	Packet Packet
	// Steps are the rules that matched, in their order.
	Steps []Step
	// Outcomes are the ends; equal ones are merged and their shares added.
	Outcomes []Outcome
}

const (
	// deepest is more than the kernel lets chains be nested; a ruleset that was not read from a kernel may have loops.
	deepest = 64
	// mostFlows bounds how many possibilities are followed at a time.
	mostFlows = 20000
)

// Walk follows a packet through the rules of its family. It fails when there are too many possibilities, or chains without an end.
func Walk(p Packet, r Ruleset, w Node) (Path, error) {
	k := walk{rules: r, node: remember(w), path: Path{Packet: p}}
	start := []flow{{state: state{Packet: p, client: p.Src, original: p.Dst}, share: 1}}
	if p.In == "" {
		k.fromNode(start)
	} else {
		k.fromOutside(start)
	}
	if k.err != nil {
		return Path{}, k.err
	}
	k.path.Outcomes = k.ends.all
	slices.SortFunc(k.path.Outcomes, compareOutcomes)
	return k.path, nil
}

// walk is one run of Walk.
type walk struct {
	rules Ruleset
	node  Node
	path  Path
	ends  outcomes
	// unknowns are the unknown conditions by number, with a sentence for each of the two cases.
	unknowns [][2]string
	err      error
}

// fromNode follows packets that the node itself sends. Those to itself come in again through the loopback interface, already
// translated.
func (k *walk) fromNode(flows []flow) {
	flows = k.route(flows)
	flows = k.hook("OUTPUT", flows, "raw", "mangle", "nat")
	flows = k.reroute(flows)
	flows = k.hook("OUTPUT", flows, "filter", "security")
	flows = k.hook("POSTROUTING", k.route(flows), "mangle", "nat")
	here, away := parted(flows)
	k.delivered(away)
	for i, f := range here {
		here[i].state = f.looped()
	}
	here = k.hook("PREROUTING", here, "raw", "mangle")
	k.delivered(k.hook("INPUT", here, "mangle", "filter", "security"))
}

// fromOutside follows packets that come in through an interface.
func (k *walk) fromOutside(flows []flow) {
	flows = k.route(k.hook("PREROUTING", flows, "raw", "mangle", "nat"))
	here, away := parted(flows)
	k.delivered(k.hook("INPUT", here, "mangle", "filter", "security", "nat"))
	away = k.hook("FORWARD", away, "mangle", "filter", "security")
	k.delivered(k.hook("POSTROUTING", away, "mangle", "nat"))
}

func parted(flows []flow) (here, away []flow) {
	for _, f := range flows {
		if f.here {
			here = append(here, f)
		} else {
			away = append(away, f)
		}
	}
	return here, away
}

// route looks up the routes of the packets. Those without a route end here.
func (k *walk) route(flows []flow) (on []flow) {
	for _, f := range flows {
		here, err := k.node.Local(f.Dst.Addr())
		f.here, f.out = here, "lo"
		if err != nil || !here {
			f.out, err = k.node.Route(f.Packet, f.mark)
		}
		if f.here && f.In != "" {
			f.out = ""
		}
		switch {
		case errors.Is(err, ErrNoRoute):
			k.end(f, End{Verdict: Unroutable, Dst: f.Dst, Translated: f.translated(), Detail: err.Error()})
			continue
		case err != nil:
			f.out = unknownInterface
		}
		on = append(on, f)
	}
	return on
}

// reroute is what the kernel does after translating a packet of the node: it routes it again at once, but the remaining rules of OUTPUT
// still see the interface of the first route.
func (k *walk) reroute(flows []flow) []flow {
	var on []flow
	for _, f := range flows {
		for _, r := range k.route([]flow{f}) {
			r.out = f.out
			on = append(on, r)
		}
	}
	return on
}

// hook evaluates a built-in chain of several tables and returns the packets that pass.
func (k *walk) hook(name string, flows []flow, tables ...string) []flow {
	for _, t := range tables {
		c := k.rules.tables[t][name]
		if c == nil || len(flows) == 0 || len(c.rules) == 0 && c.policy != "DROP" {
			continue
		}
		k.path.Steps = append(k.path.Steps, builtin(t, name, flows))
		accepted, fallen := k.chain(k.rules.tables[t], c, flows, 1)
		if c.policy == "DROP" {
			k.policyDrops(t, name, fallen)
			fallen = nil
		}
		flows = merge(append(accepted, fallen...))
	}
	return flows
}

func (k *walk) policyDrops(tableName, chainName string, flows []flow) {
	for _, f := range flows {
		k.end(f, End{Verdict: Dropped, Because: fmt.Sprintf("the policy of %s %s", tableName, chainName)})
	}
}

// chain evaluates the rules of a chain. It returns the packets that a rule accepted for the table, and those that returned from the
// chain or came to its end.
func (k *walk) chain(t table, c *chain, flows []flow, depth int) (accepted, fallen []flow) {
	if depth > deepest {
		k.fail(fmt.Errorf("the chains at %s have no end", c.name))
	}
	for _, r := range c.rules {
		if k.err != nil || len(flows) == 0 {
			break
		}
		m := k.match(r, flows)
		if len(m.hit) == 0 {
			continue
		}
		p := k.apply(t, r, k.step(r, flows, m, depth), m.hit, depth)
		accepted, fallen = append(accepted, p.accepted...), append(fallen, p.fallen...)
		flows = k.bounded(merge(append(m.miss, p.on...)))
	}
	return accepted, append(fallen, flows...)
}

func (k *walk) bounded(flows []flow) []flow {
	if len(flows) > mostFlows {
		k.fail(fmt.Errorf("there are more than %d possibilities", mostFlows))
	}
	return flows
}

// matched are the packets that a rule matches and those that it does not. Packets that it matches at random are in both, as are those for
// which the result is unknown; unknown says why.
type matched struct {
	hit, miss []flow
	unknown   string
}

func (k *walk) match(r rule, flows []flow) (m matched) {
	number := -1
	for _, f := range flows {
		a := k.ask(r, f.state)
		if a.unknown != "" {
			if number < 0 {
				number = k.doubt(r.text+" matches", r.text+" does not match")
			}
			m.unknown = a.unknown
			other := f
			f.ifs, other.ifs = f.ifs.with(number, true), f.ifs.with(number, false)
			m.miss = append(m.miss, other)
		}
		m.hit = appendPart(m.hit, f, a.chance)
		m.miss = appendPart(m.miss, f, 1-a.chance)
	}
	return m
}

// doubt adds an unknown condition, with a sentence for each of its results.
func (k *walk) doubt(holds, not string) (number int) {
	k.unknowns = append(k.unknowns, [2]string{holds, not})
	return len(k.unknowns) - 1
}

func appendPart(flows []flow, f flow, part float64) []flow {
	if part <= 0 {
		return flows
	}
	f.share *= part
	return append(flows, f)
}

// ask evaluates all matches of a rule. One that certainly fails decides, whatever is unknown about the others.
func (k *walk) ask(r rule, s state) answer {
	all := yes
	for _, m := range r.matches {
		a := m(k.node, s)
		switch {
		case a.unknown != "":
			all.unknown = a.unknown
		case a.chance == 0:
			return no
		default:
			all.chance *= a.chance
		}
	}
	return all
}

// passage is the result of a matching rule: packets accepted for the table, returned from the chain, or going on to the next rule.
type passage struct{ accepted, fallen, on []flow }

// apply executes the target of a rule for the packets that it matched, and adds notes to the step with that number.
func (k *walk) apply(t table, r rule, step int, hit []flow, depth int) passage {
	to := t[r.target]
	switch {
	case to != nil && r.isGoto:
		accepted, fallen := k.chain(t, to, hit, depth+1)
		return passage{accepted: accepted, fallen: fallen}
	case to != nil:
		accepted, back := k.chain(t, to, hit, depth+1)
		return passage{accepted: accepted, on: back}
	case r.target == "RETURN":
		return passage{fallen: hit}
	default:
		return k.extension(r, step, hit)
	}
}

// extension executes a target that is no chain.
func (k *walk) extension(r rule, step int, hit []flow) (p passage) {
	do, number := targets[r.target], -1
	if do == nil {
		do = func(_ rule, s state) effect { return unknownTarget(s) }
	}
	for _, f := range hit {
		e := do(r, f.state)
		f.state = e.state
		if e.doubt {
			if number < 0 {
				number = k.doubt(r.text+" lets it pass unchanged", "")
				e.note = "cannot tell what this does; it is passed by"
			}
			f.ifs = f.ifs.with(number, true)
		}
		k.note(step, e.note)
		switch {
		case e.end != nil:
			k.end(f, *e.end)
		case e.accepted:
			p.accepted = append(p.accepted, f)
		default:
			p.on = append(p.on, f)
		}
	}
	return p
}

// step records that a rule matched some of the packets, and returns the number of the step.
func (k *walk) step(r rule, before []flow, m matched, depth int) int {
	s := Step{Depth: depth, Text: r.text, Notes: whichOf(before, m)}
	k.path.Steps = append(k.path.Steps, s)
	return len(k.path.Steps) - 1
}

func (k *walk) note(step int, note string) {
	notes := &k.path.Steps[step].Notes
	if note != "" && !slices.Contains(*notes, note) {
		*notes = append(*notes, note)
	}
}

// delivered ends packets that passed all chains.
func (k *walk) delivered(flows []flow) {
	for _, f := range flows {
		k.end(f, End{Verdict: Delivered, Dst: f.Dst, Here: f.here, Translated: f.translated()})
	}
}

// end records an Outcome.
func (k *walk) end(f flow, e End) {
	e.Source, e.Touched = f.source, f.touched
	o := Outcome{End: e, Share: f.share}
	for _, c := range f.ifs {
		sentence := k.unknowns[c.number][0]
		if !c.holds {
			sentence = k.unknowns[c.number][1]
		}
		o.If = append(o.If, sentence)
	}
	k.ends.add(o)
}

func (k *walk) fail(err error) {
	if k.err == nil {
		k.err = err
	}
}
