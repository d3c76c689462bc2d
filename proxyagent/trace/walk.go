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
	// Outcomes are the ends, without two that differ in nothing but their share.
	Outcomes []Outcome
}

const (
	// deepest is more than the kernel lets chains be nested; a ruleset that was not read from a kernel may have loops.
	deepest = 64
	// mostFlows bounds how many possibilities are followed at a time.
	mostFlows = 20000
)

// Walk follows a packet through the rules of its family. It fails when there are too many possibilities, or chains without an end.
func Walk(p Packet, r Ruleset, w World) (Path, error) {
	k := walk{rules: r, world: remember(w), path: Path{Packet: p}}
	start := []flow{{state: state{Packet: p, original: p.Dst}, share: 1}}
	if p.In == "" {
		k.fromNode(start)
	} else {
		k.fromOutside(start)
	}
	if k.err != nil {
		return Path{}, k.err
	}
	slices.SortFunc(k.path.Outcomes, compareOutcomes)
	return k.path, nil
}

// walk is one run of Walk.
type walk struct {
	rules Ruleset
	world World
	path  Path
	// unknowns are the conditions that could not be told, by number, as a sentence for each of its two cases.
	unknowns [][2]string
	err      error
}

// fromNode is the way of what the node itself sends. What it sends to itself comes in again by the loopback interface; its
// translations are done by then.
func (k *walk) fromNode(flows []flow) {
	flows = k.route(flows)
	flows = k.hook("OUTPUT", flows, "raw", "mangle", "nat")
	flows = k.route(flows)
	flows = k.hook("OUTPUT", flows, "filter", "security")
	flows = k.hook("POSTROUTING", flows, "mangle", "nat")
	here, away := parted(flows)
	k.delivered(away)
	for i := range here {
		here[i].In = "lo"
	}
	here = k.hook("PREROUTING", here, "raw", "mangle")
	k.delivered(k.hook("INPUT", here, "mangle", "filter", "security"))
}

// fromOutside is the way of what comes in.
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

// route asks where the packets go now. Those that routing refuses end here.
func (k *walk) route(flows []flow) (on []flow) {
	for _, f := range flows {
		here, err := k.world.Local(f.Dst.Addr())
		f.here, f.out = here, "lo"
		if err != nil || !here {
			f.out, err = k.world.Route(f.Packet, f.mark)
		}
		if f.here && f.In != "" {
			f.out = ""
		}
		switch {
		case errors.Is(err, ErrNoRoute):
			k.end(f, Outcome{Verdict: Unroutable, Dst: f.Dst, Translated: f.translated(), Detail: err.Error()})
			continue
		case err != nil:
			f.out = unknownInterface
		}
		on = append(on, f)
	}
	return on
}

// hook leads packets through a built-in chain of several tables and returns those that come out.
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
		k.end(f, Outcome{Verdict: Dropped, Because: fmt.Sprintf("the policy of %s %s", tableName, chainName)})
	}
}

// chain leads packets through the rules of a chain. It returns those that a rule accepted for the whole table, and those that came to
// the end of the chain or were sent back. Others have come to their end.
func (k *walk) chain(t table, c *chain, flows []flow, depth int) (accepted, fallen []flow) {
	if depth > deepest {
		k.fail(fmt.Errorf("the chains at %s have no end", c.name))
	}
	for _, r := range c.rules {
		if k.err != nil || len(flows) == 0 {
			break
		}
		hit, miss := k.match(r, flows)
		if len(hit) == 0 {
			continue
		}
		p := k.apply(t, r, flows, hit, depth)
		accepted, fallen = append(accepted, p.accepted...), append(fallen, p.fallen...)
		flows = k.bounded(merge(append(miss, p.on...)))
	}
	return accepted, append(fallen, flows...)
}

func (k *walk) bounded(flows []flow) []flow {
	if len(flows) > mostFlows {
		k.fail(fmt.Errorf("there are more than %d possibilities", mostFlows))
	}
	return flows
}

// match parts packets into those that a rule matches and those that it does not. What it matches by lot, or what cannot be told, is in both.
func (k *walk) match(r rule, flows []flow) (hit, miss []flow) {
	for _, f := range flows {
		a := k.ask(r, f.state)
		if a.unknown != "" {
			n := k.unknown(
				fmt.Sprintf("%s matches (cannot tell: %s)", r.text, a.unknown), fmt.Sprintf("%s does not match (cannot tell: %s)", r.text, a.unknown))
			other := f
			f.ifs, other.ifs = f.ifs.with(n, true), other.ifs.with(n, false)
			miss = append(miss, other)
		}
		hit = appendPart(hit, f, a.chance)
		miss = appendPart(miss, f, 1-a.chance)
	}
	return hit, miss
}

func appendPart(flows []flow, f flow, part float64) []flow {
	if part <= 0 {
		return flows
	}
	f.share *= part
	return append(flows, f)
}

// ask puts all matches of a rule together. One that certainly does not hold decides, whatever is unknown about the others.
func (k *walk) ask(r rule, s state) answer {
	all := yes
	for _, m := range r.matches {
		a := m(k.world, s)
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

// passage is where the packets are after a rule that matched them: accepted for the table, sent back from the chain, or behind the rule.
type passage struct{ accepted, fallen, on []flow }

// apply does the target of a rule to the packets that it matched, of those that came to it.
func (k *walk) apply(t table, r rule, before, hit []flow, depth int) passage {
	step := k.step(r, before, hit, depth)
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
		return k.extension(r, hit, step)
	}
}

// step takes down that a rule matched, and returns the number of its line.
func (k *walk) step(r rule, before, hit []flow, depth int) int {
	s := Step{Depth: depth, Text: r.text}
	if to := which(before, hit); to != "" {
		s.Notes = append(s.Notes, to)
	}
	if share := totalShare(hit); share < totalShare(before) && len(unknownsOf(hit)) == 0 {
		s.Notes = append(s.Notes, fraction(share)+" of all")
	}
	for _, f := range hit {
		for _, c := range f.ifs {
			if c.holds && c.number == len(k.unknowns)-1 {
				s.Notes = appendNew(s.Notes, "if it "+k.unknowns[c.number][0][len(r.text)+1:])
			}
		}
	}
	k.path.Steps = append(k.path.Steps, s)
	return len(k.path.Steps) - 1
}
