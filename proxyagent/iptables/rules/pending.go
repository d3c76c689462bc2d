package rules

import (
	"maps"
	"slices"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
)

// NewSets returns the sets of clients that have to be made, sorted by name.
func (r *Ruleset) NewSets() []ipset.Set {
	var sets []ipset.Set
	for _, name := range slices.Sorted(maps.Keys(r.newSets)) {
		sets = append(sets, affinityKind(r.family, name))
	}
	return sets
}

// SetsMade notes that the kernel has the NewSets, but for those that it refuses.
func (r *Ruleset) SetsMade(refused map[ipset.Set]error) {
	clear(r.newSets)
	for s := range refused {
		r.newSets[s.Name] = struct{}{}
	}
}

// Members returns the members that sets lack or, with away, those that are in them and not wanted.
func (r *Ruleset) Members(away bool) []ipset.Change {
	var changes []ipset.Change
	for _, kind := range setKinds {
		for e := range r.changed[kind.name] {
			if wanted := r.members[kind.name][e] > 0; wanted != away {
				changes = append(changes, ipset.Change{Set: kind.name.of(r.family), Entry: e, Delete: away})
			}
		}
	}
	if away {
		slices.Reverse(changes)
	}
	return changes
}

// MembersWritten notes that the Members were added, or taken out with away, except refused ones.
func (r *Ruleset) MembersWritten(away bool, refused map[ipset.Change]error) {
	for _, kind := range setKinds {
		// A map never gets smaller: what is left goes into a new one.
		left := map[ipset.Entry]struct{}{}
		for e := range r.changed[kind.name] {
			wanted := r.members[kind.name][e] > 0
			if wanted == away || refused[ipset.Change{Set: kind.name.of(r.family), Entry: e, Delete: away}] != nil {
				left[e] = struct{}{}
			}
		}
		r.changed[kind.name] = left
	}
}

// Transaction returns what makes the chains and jumps of the kernel those that are wanted.
func (r *Ruleset) Transaction() Transaction {
	t := Transaction{write: map[chain][]string{}, insert: r.insert, unhook: r.unhook}
	for c := range r.dirty {
		if rules, wanted := r.chains[c]; wanted {
			t.write[c] = rules
		} else {
			t.remove = append(t.remove, c)
		}
	}
	return t
}

// Written notes that the Transaction was.
func (r *Ruleset) Written() {
	r.dirty = map[chain]struct{}{}
	r.insert, r.unhook = nil, nil
}

// OldSets returns the names of sets that no port needs, sorted. There are none while the table nat
// cannot be read: an earlier agent's chains may be in it, and the kernel keeps sets they name.
func (r *Ruleset) OldSets() []string {
	if slices.Contains(r.unreadable, nat) {
		return nil
	}
	return slices.Sorted(maps.Keys(r.oldSets))
}

// SetsDropped notes that the OldSets are gone.
func (r *Ruleset) SetsDropped() { clear(r.oldSets) }

// Compare notes how the kernel's rules differ from those wanted, and returns that in words. Chains
// of unreadable tables count as they were written: "cannot be read" is not "gone".
func (r *Ruleset) Compare(s Saved, known *Spellings) []string {
	hidden := func(c chain) bool { return slices.Contains(s.Unreadable, c.table) }
	maps.DeleteFunc(r.dirty, func(c chain, _ struct{}) bool { return !hidden(c) })
	r.unreadable, known.doubtful = s.Unreadable, map[chain]spelling{}
	var found []string
	for c, want := range r.chains {
		have, there := s.chains[c]
		if hidden(c) || there && known.same(c, want, have) {
			continue
		}
		r.dirty[c] = struct{}{}
		found = append(found, "chain "+c.name)
	}
	for c := range s.chains {
		if _, wanted := r.chains[c]; !wanted {
			r.dirty[c] = struct{}{}
			found = append(found, "foreign chain "+c.name)
		}
	}
	r.insert, r.unhook = mend(s)
	for _, j := range slices.Concat(r.insert, r.unhook) {
		found = append(found, "jump from "+j.from)
	}
	return found
}

// CountsFit reports whether all sets exist, and static ones have as many members as wanted.
func (r *Ruleset) CountsFit(counts map[string]int) bool {
	for _, kind := range setKinds {
		if counts[kind.name.of(r.family)] != len(r.members[kind.name]) {
			return false
		}
	}
	for name := range r.affinity {
		if _, there := counts[name]; !there {
			return false
		}
	}
	return true
}

// CompareMembers notes missing and unwanted members of a static set, and reports whether any are.
func (r *Ruleset) CompareMembers(set string, entries map[ipset.Entry]struct{}) (differs bool) {
	name := setName(strings.TrimPrefix(set, SetPrefix(r.family)))
	wanted, changed := r.members[name], map[ipset.Entry]struct{}{}
	for e := range wanted {
		changed[e] = struct{}{}
	}
	for e := range entries {
		if wanted[e] > 0 {
			delete(changed, e)
		} else {
			changed[e] = struct{}{}
		}
	}
	r.changed[name] = changed
	return len(changed) > 0
}

// CompareSets notes missing and unneeded sets of clients, and returns the missing ones in words.
func (r *Ruleset) CompareSets(there map[string]int) (missing []string) {
	r.newSets, r.oldSets = map[string]struct{}{}, map[string]struct{}{}
	for name := range there {
		r.oldSets[name] = struct{}{}
	}
	for _, kind := range setKinds {
		delete(r.oldSets, kind.name.of(r.family))
	}
	for name := range r.affinity {
		if _, made := there[name]; !made {
			r.newSets[name] = struct{}{}
			missing = append(missing, "set "+name)
		}
		delete(r.oldSets, name)
	}
	return missing
}

// Spellings remembers chains that iptables-save prints otherwise than they were written. A version
// of iptables may print a rule in an unknown way: then the chain is written once more, and if it is
// read the same right afterwards, it counts as equal from then on. The zero value knows none.
type Spellings struct {
	known    map[chain]spelling
	doubtful map[chain]spelling // of which that is not known yet
}

// spelling is what was written into a chain and what was read of it.
type spelling struct{ written, read string }

func (s *Spellings) same(c chain, want, have []string) bool {
	if sameRules(want, have) {
		delete(s.known, c)
		return true
	}
	if len(want) != len(have) {
		return false
	}
	now := spelling{strings.Join(want, "\n"), strings.Join(have, "\n")}
	if s.known[c] == now {
		return true
	}
	s.doubtful[c] = now
	return false
}

// Doubtful reports whether chains have to be written though maybe only their spelling differs.
func (s *Spellings) Doubtful() bool { return len(s.doubtful) > 0 }

// Confirm takes in what is read right after these chains were written.
func (s *Spellings) Confirm(now Saved) {
	if s.known == nil {
		s.known = map[chain]spelling{}
	}
	for c, doubt := range s.doubtful {
		if strings.Join(now.chains[c], "\n") == doubt.read {
			s.known[c] = doubt
		}
	}
	clear(s.doubtful)
}
