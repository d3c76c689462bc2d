package rules

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
)

// Transaction is what one run of iptables-restore does: all or nothing in each of its tables.
type Transaction struct {
	// write holds chains with their rules. Whatever was in them is replaced.
	write map[chain][]string
	// remove holds chains to take away. Nothing may lead to them afterwards.
	remove []chain
	// insert and unhook are jumps of built-in chains: to be inserted first, and to be deleted.
	insert, unhook []jump
}

// Empty reports whether there is nothing to do.
func (t Transaction) Empty() bool { return t.Chains()+len(t.insert)+len(t.unhook) == 0 }

// Text renders the transaction for iptables-restore --noflush. Chains are declared in the order of
// their names: iptables-nft keeps a sorted list, and inserting at its end is many times cheaper.
func (t Transaction) Text() []byte {
	var b bytes.Buffer
	for _, tb := range t.Tables() {
		t.table(&b, tb)
	}
	return b.Bytes()
}

// Chains counts the chains that it writes or removes.
func (t Transaction) Chains() int { return len(t.write) + len(t.remove) }

// Rules counts the rules that it writes into chains, by table.
func (t Transaction) Rules() map[string]int {
	rules := map[string]int{}
	for c, bodies := range t.write {
		rules[string(c.table)] += len(bodies)
	}
	return rules
}

// Tables returns the tables that it touches: nat and filter, and mangle where old rules are left.
func (t Transaction) Tables() []Table {
	var all []Table
	for c := range t.write {
		all = append(all, c.table)
	}
	for _, c := range t.remove {
		all = append(all, c.table)
	}
	for _, j := range slices.Concat(t.insert, t.unhook) {
		all = append(all, j.table)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (t Transaction) table(b *bytes.Buffer, tb Table) {
	chains := slices.DeleteFunc(slices.AppendSeq(slices.Clone(t.remove), maps.Keys(t.write)), func(c chain) bool { return c.table != tb })
	slices.SortFunc(chains, func(a, b chain) int { return cmp.Compare(a.name, b.name) })
	b.WriteString("*" + string(tb) + "\n")
	for _, c := range chains {
		b.WriteString(":" + c.name + " - [0:0]\n")
	}
	for _, j := range t.unhook {
		if j.table == tb {
			b.WriteString("-D " + j.from + " " + j.body + "\n")
		}
	}
	for _, c := range chains {
		for _, body := range t.write[c] {
			b.WriteString("-A " + c.name + " " + body + "\n")
		}
	}
	for _, j := range t.insert {
		if j.table == tb {
			b.WriteString("-I " + j.from + " 1 " + j.body + "\n")
		}
	}
	for _, c := range chains {
		if _, stays := t.write[c]; !stays {
			b.WriteString("-X " + c.name + "\n")
		}
	}
	b.WriteString("COMMIT\n")
}

// Removal is the transaction that takes all chains away, and the jumps to them, which it counts.
func (s Saved) Removal() (t Transaction, jumps int) {
	for c := range s.chains {
		t.remove = append(t.remove, c)
	}
	for j, times := range s.jumps {
		for range times {
			t.unhook = append(t.unhook, j)
		}
	}
	return t, len(t.unhook)
}

// mend returns the jumps to insert and to delete so that each of ours is there once and no other.
func mend(s Saved) (insert, unhook []jump) {
	for _, j := range jumps {
		if s.jumps[j] == 0 {
			insert = append(insert, j)
		}
	}
	for j, times := range s.jumps {
		if slices.Contains(jumps, j) {
			times--
		}
		for range times {
			unhook = append(unhook, j)
		}
	}
	return insert, unhook
}
