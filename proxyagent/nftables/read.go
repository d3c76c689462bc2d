//go:build linux

package nftables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// there is what the kernel has.
type there struct {
	dormant bool
	sets    map[set]uint64    // the sum of the fingerprints of the elements of each set that is there
	rules   map[string]string // by chain: its policy and the handles of its rules, which are never used twice
	others  map[string]bool   // sets that packets write into, and those of other versions
}

// read reads everything; of elements it keeps nothing. It may run beside a transaction.
func (k *kernel) read(ctx context.Context) (t there, err error) {
	t = there{sets: map[set]uint64{}, rules: map[string]string{}, others: map[string]bool{}}
	exists, flags, err := k.tableFlags(ctx)
	if err != nil || !exists {
		return t, err
	}
	t.dormant = flags != 0
	if t.rules, err = k.rules(ctx); err != nil {
		return t, err
	}
	var names []string
	err = k.dump(ctx, unix.NFT_MSG_GETSET, nfnetlink.Attrs(nil).PutString(unix.NFTA_SET_TABLE, k.table.Name), func() { names = nil }, func(answer nfnetlink.Attrs) {
		if attrs := maps.Collect(answer.All()); attrs[unix.NFTA_SET_TABLE].Text() == k.table.Name {
			names = append(names, attrs[unix.NFTA_SET_NAME].Text())
		}
	})
	if err != nil {
		return t, fmt.Errorf("listing sets: %w", err)
	}
	for _, name := range names {
		if _, ours := schemas[set(name)]; !ours {
			t.others[name] = true
			continue
		}
		var sum uint64
		if err := k.list(ctx, name, func() { sum = 0 }, func(e element) { sum += print(e.of, e.to, e.value) }); err != nil {
			return t, err
		}
		t.sets[set(name)] = sum
	}
	return t, nil
}

// tableFlags reports whether our table is there, and its flags. A kernel without nf_tables has none.
func (k *kernel) tableFlags(ctx context.Context) (there bool, flags uint32, err error) {
	err = k.dump(ctx, unix.NFT_MSG_GETTABLE, nil, func() { there = false }, func(answer nfnetlink.Attrs) {
		if attrs := maps.Collect(answer.All()); attrs[unix.NFTA_TABLE_NAME].Text() == k.table.Name {
			there, flags = true, attrs[unix.NFTA_TABLE_FLAGS].Net32()
		}
	})
	if err = ignore(ignore(err, syscall.EINVAL), syscall.EOPNOTSUPP); err != nil {
		return false, 0, fmt.Errorf("listing tables: %w", err)
	}
	return there, flags, nil
}

// agreements is how many dumps there are until two agree.
const agreements = 8

// keyEnd is the end of an interval: NFTA_SET_ELEM_KEY_END of linux/netfilter/nf_tables.h.
const keyEnd = 10

// element is one of a set, as the kernel has it.
type element struct{ of, to, value string }

// dump asks for all there is of a kind. When it changes meanwhile, it begins again.
func (k *kernel) dump(ctx context.Context, command uint8, attrs nfnetlink.Attrs, begin func(), each func(nfnetlink.Attrs)) error {
	conn, err := nfnetlink.Open()
	if err != nil {
		return err
	}
	defer conn.Close()
	r := nfnetlink.Request{Subsystem: unix.NFNL_SUBSYS_NFTABLES, Command: command, Family: uint8(k.table.Family), Attrs: attrs}
	return nfnetlink.Again(ctx, func() error {
		begin()
		return conn.Dump(r, each)
	})
}

// elements returns those of a set, of which a dump had this sum before. Two dumps in a row have to agree: a moment after a write the kernel moves the elements to more buckets, or to fewer, and
// a dump beside that leaves some out, or has them twice. It does not say so, nor that somebody wrote meanwhile.
func (k *kernel) elements(ctx context.Context, name set, before uint64) (map[key]string, error) {
	for range agreements {
		have, sum := map[key]string{}, uint64(0)
		err := k.list(ctx, string(name), func() { clear(have); sum = 0 }, func(e element) {
			have[key{name, e.of, e.to}] = e.value
			sum += print(e.of, e.to, e.value)
		})
		if err != nil || sum == before {
			return have, err
		}
		before = sum
	}
	return nil, fmt.Errorf("reading the set %s: every dump is different", name)
}

// list calls begin, and then each for what one dump of a set has: see elements. A set that is not there has none.
func (k *kernel) list(ctx context.Context, name string, begin func(), each func(element)) error {
	request := nfnetlink.Attrs(nil).PutString(unix.NFTA_SET_ELEM_LIST_TABLE, k.table.Name).PutString(unix.NFTA_SET_ELEM_LIST_SET, name)
	err := k.dump(ctx, unix.NFT_MSG_GETSETELEM, request, begin, func(answer nfnetlink.Attrs) {
		for kind, list := range answer.All() {
			if kind != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
				continue
			}
			for _, e := range list.All() {
				each(parseElement(e))
			}
		}
	})
	if err != nil && !errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("reading the set %s: %w", name, err)
	}
	return nil
}

func parseElement(attrs nfnetlink.Attrs) (e element) {
	for kind, v := range attrs.All() {
		switch kind {
		case unix.NFTA_SET_ELEM_KEY:
			e.of = datum(v)
		case keyEnd:
			e.to = datum(v)
		case unix.NFTA_SET_ELEM_DATA:
			e.value = datum(v)
		}
	}
	return e
}

// datum is a key, or a value: of a verdict the chain, or that it drops.
func datum(attrs nfnetlink.Attrs) string {
	for kind, v := range attrs.All() {
		if kind == unix.NFTA_DATA_VALUE {
			return string(v)
		}
		for kind, chain := range v.All() {
			if kind == unix.NFTA_VERDICT_CHAIN {
				return chain.Text()
			}
		}
	}
	return drop
}

// rules returns policy and handles of the rules of all chains, or of one.
func (k *kernel) rules(ctx context.Context, one ...string) (map[string]string, error) {
	request := nfnetlink.Attrs(nil).PutString(unix.NFTA_RULE_TABLE, k.table.Name)
	for _, name := range one {
		request = request.PutString(unix.NFTA_RULE_CHAIN, name)
	}
	policies, handles := map[string]string{}, map[string]string{}
	err := k.dump(ctx, unix.NFT_MSG_GETCHAIN, nil, func() { clear(policies) }, func(answer nfnetlink.Attrs) {
		attrs := maps.Collect(answer.All())
		if name := attrs[unix.NFTA_CHAIN_NAME].Text(); attrs[unix.NFTA_CHAIN_TABLE].Text() == k.table.Name && (len(one) == 0 || name == one[0]) {
			policies[name] = fmt.Sprint("policy ", attrs[unix.NFTA_CHAIN_POLICY].Net32(), " ")
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listing chains: %w", err)
	}
	err = k.dump(ctx, unix.NFT_MSG_GETRULE, request, func() { clear(handles) }, func(answer nfnetlink.Attrs) {
		attrs := maps.Collect(answer.All())
		if attrs[unix.NFTA_RULE_TABLE].Text() == k.table.Name {
			handles[attrs[unix.NFTA_RULE_CHAIN].Text()] += fmt.Sprint(attrs[unix.NFTA_RULE_HANDLE].Net64(), " ")
		}
	})
	if err != nil {
		return nil, fmt.Errorf("reading rules: %w", err)
	}
	for name := range policies {
		policies[name] += handles[name]
	}
	return policies, nil
}

// invalidDropped reads how many packets the rule of invalid ones has counted.
func (k *kernel) invalidDropped(ctx context.Context) (n uint64, err error) {
	request := nfnetlink.Attrs(nil).PutString(unix.NFTA_RULE_TABLE, k.table.Name).PutString(unix.NFTA_RULE_CHAIN, chainForward)
	err = k.dump(ctx, unix.NFT_MSG_GETRULE, request, func() { n = 0 }, func(answer nfnetlink.Attrs) {
		rule := maps.Collect(answer.All())
		for _, e := range rule[unix.NFTA_RULE_EXPRESSIONS].All() {
			expression := maps.Collect(e.All())
			if expression[unix.NFTA_EXPR_NAME].Text() == "counter" {
				n += maps.Collect(expression[unix.NFTA_EXPR_DATA].All())[unix.NFTA_COUNTER_PACKETS].Net64()
			}
		}
	})
	return n, err
}

func ignore(err error, which syscall.Errno) error {
	if errors.Is(err, which) {
		return nil
	}
	return err
}
