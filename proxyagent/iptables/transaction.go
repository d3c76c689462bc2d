package iptables

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
)

// transaction is what one run of iptables-restore does: for each table it touches all or nothing happens.
type transaction struct {
	// write holds chains with their rules. Whatever was in them is replaced.
	write map[chain][]string
	// remove holds chains to take away. Nothing may lead to them afterwards.
	remove []chain
	// insert and unhook are jumps of built-in chains: to be inserted first, and to be deleted.
	insert, unhook []jump
}

func (t transaction) empty() bool {
	return len(t.write) == 0 && len(t.remove) == 0 && len(t.insert) == 0 && len(t.unhook) == 0
}

// text renders the transaction for iptables-restore --noflush. Chains are declared in the order of their names: iptables-nft keeps them in
// a sorted list, and inserting at its end is many times cheaper than in its middle.
func (t transaction) text() []byte {
	var b bytes.Buffer
	for _, tb := range t.tables() {
		t.table(&b, tb)
	}
	return b.Bytes()
}

// tables returns the tables that it touches. Those of ours are nat and filter; what others left may be in mangle too.
func (t transaction) tables() []table {
	seen := map[table]bool{}
	for c := range t.write {
		seen[c.table] = true
	}
	for _, c := range t.remove {
		seen[c.table] = true
	}
	for _, j := range slices.Concat(t.insert, t.unhook) {
		seen[j.table] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func (t transaction) table(b *bytes.Buffer, tb table) {
	chains := t.in(tb)
	insert, unhook := jumpsIn(t.insert, tb), jumpsIn(t.unhook, tb)
	b.WriteString("*" + string(tb) + "\n")
	for _, c := range chains {
		b.WriteString(":" + c.name + " - [0:0]\n")
	}
	for _, j := range unhook {
		b.WriteString("-D " + j.from + " " + j.body + "\n")
	}
	for _, c := range chains {
		for _, body := range t.write[c] {
			b.WriteString("-A ")
			b.WriteString(c.name)
			b.WriteByte(' ')
			b.WriteString(body)
			b.WriteByte('\n')
		}
	}
	for _, j := range insert {
		b.WriteString("-I " + j.from + " 1 " + j.body + "\n")
	}
	for _, c := range chains {
		if _, stays := t.write[c]; !stays {
			b.WriteString("-X " + c.name + "\n")
		}
	}
	b.WriteString("COMMIT\n")
}

// in returns the chains of a table, those to be removed too, by name.
func (t transaction) in(tb table) []chain {
	var chains []chain
	for c := range t.write {
		if c.table == tb {
			chains = append(chains, c)
		}
	}
	for _, c := range t.remove {
		if c.table == tb {
			chains = append(chains, c)
		}
	}
	slices.SortFunc(chains, func(a, b chain) int { return cmp.Compare(a.name, b.name) })
	return chains
}

func jumpsIn(all []jump, tb table) []jump {
	var in []jump
	for _, j := range all {
		if j.table == tb {
			in = append(in, j)
		}
	}
	return in
}

// removal is the transaction that takes all of ours away.
func removal(s saved) transaction {
	var t transaction
	for c := range s.chains {
		t.remove = append(t.remove, c)
	}
	for j, times := range s.jumps {
		for range times {
			t.unhook = append(t.unhook, j)
		}
	}
	slices.SortFunc(t.unhook, func(a, b jump) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.from, b.from), cmp.Compare(a.body, b.body))
	})
	return t
}

// mend returns the jumps to insert and to delete so that each of ours is there once and no other.
func mend(s saved) (insert, unhook []jump) {
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
