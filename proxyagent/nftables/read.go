//go:build linux

package nftables

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables/tables"
)

// read reads everything; of elements it keeps nothing. It may run beside a transaction.
func (k *kernel) read(ctx context.Context) (t tables.Observed, err error) {
	t = tables.Observed{Sets: map[tables.Set]struct{}{}, Prints: map[tables.Bucket]uint64{}, Rules: map[string]string{}, Others: map[string]bool{}}
	exists, flags, err := k.tableFlags()
	if err != nil || !exists {
		return t, err
	}
	t.Dormant = flags != 0
	if t.Rules, err = k.rules(ctx); err != nil {
		return t, err
	}
	var names []string
	err = k.dump(ctx, unix.NFT_MSG_GETSET, nfnetlink.Attrs(nil).PutString(unix.NFTA_SET_TABLE, k.table.Name), func() { names = nil }, func(answer nfnetlink.Attrs) {
		names = append(names, answer.Get(unix.NFTA_SET_NAME).Text())
	})
	if err != nil {
		return t, fmt.Errorf("listing sets: %w", err)
	}
	for _, name := range names {
		if _, ours := tables.Schemas[tables.Set(name)]; !ours {
			t.Others[name] = true
			continue
		}
		var sums map[tables.Bucket]uint64
		err := k.list(ctx, name, func() { sums = map[tables.Bucket]uint64{} }, func(e element) {
			sums[tables.Key{Set: tables.Set(name), Of: e.of}.Bucket()] += tables.Print(e.of, e.value)
		})
		if err != nil {
			return t, err
		}
		t.Sets[tables.Set(name)] = struct{}{}
		maps.Copy(t.Prints, sums)
	}
	return t, nil
}

// tableFlags reports whether our table exists, and its flags. A kernel without nf_tables has none.
func (k *kernel) tableFlags() (there bool, flags uint32, err error) {
	conn, err := nfnetlink.Open()
	if err != nil {
		return false, 0, err
	}
	defer conn.Close()
	err = conn.Get(k.request(unix.NFT_MSG_GETTABLE, nfnetlink.Attrs(nil).PutString(unix.NFTA_TABLE_NAME, k.table.Name)), func(answer nfnetlink.Attrs) {
		there, flags = true, uint32(answer.Get(unix.NFTA_TABLE_FLAGS).Number())
	})
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EOPNOTSUPP):
		return false, 0, nil
	case err != nil:
		return false, 0, fmt.Errorf("reading the table %s: %w", k.table.Name, err)
	default:
		return there, flags, nil
	}
}

func (k *kernel) request(command uint8, attrs nfnetlink.Attrs) nfnetlink.Request {
	return nfnetlink.Request{Subsystem: unix.NFNL_SUBSYS_NFTABLES, Command: command, Family: uint8(k.table.Family), Attrs: attrs}
}

// agreements is how many dumps there are until two agree.
const agreements = 8

// element is one of a set, as the kernel has it.
type element struct{ of, value string }

// seed is of this process.
var seed = maphash.MakeSeed()

// tableOf is the attribute with the name of the table: it has this number in answers of every kind.
const tableOf = unix.NFTA_CHAIN_TABLE

// dump asks for all that our table has of a kind. When something is written meanwhile, it begins
// again, until two agree: a dump of chains is of all tables, and what other programs write to
// theirs may have it omit one.
func (k *kernel) dump(ctx context.Context, command uint8, attrs nfnetlink.Attrs, begin func(), each func(nfnetlink.Attrs)) error {
	conn, err := nfnetlink.Open()
	if err != nil {
		return err
	}
	defer conn.Close()
	return nfnetlink.Agree(ctx, func() (sum uint64, err error) {
		begin()
		err = conn.Dump(k.request(command, attrs), func(answer nfnetlink.Attrs) {
			if answer.Get(tableOf).Text() == k.table.Name {
				sum += maphash.Bytes(seed, answer)
				each(answer)
			}
		})
		return sum, err
	})
}

// errRestless is for a set that each dump shows in another way.
var errRestless = errors.New("every dump is different")

// elements returns those of a set that are in some buckets, whose sums in an earlier dump are
// before. Two dumps in a row have to agree: soon after a write the kernel moves the elements to
// more buckets of its own, or to fewer, and a dump beside that omits some, or has them twice. The
// kernel tells neither this nor the write.
func (k *kernel) elements(ctx context.Context, name tables.Set, in func(tables.Bucket) bool, before map[tables.Bucket]uint64) (map[tables.Key]string, error) {
	for range agreements {
		have, sums := map[tables.Key]string{}, map[tables.Bucket]uint64{}
		err := k.list(ctx, string(name), func() { clear(have); clear(sums) }, func(e element) {
			of := tables.Key{Set: name, Of: e.of}
			if b := of.Bucket(); in(b) {
				have[of] = e.value
				sums[b] += tables.Print(e.of, e.value)
			}
		})
		if err != nil || maps.Equal(sums, before) {
			return have, err
		}
		before = sums
	}
	return nil, fmt.Errorf("reading the set %s: %w", name, errRestless)
}

// list calls begin, then each for what a dump of a set has (see elements). A missing set has none.
func (k *kernel) list(ctx context.Context, name string, begin func(), each func(element)) error {
	request := nfnetlink.Attrs(nil).PutString(unix.NFTA_SET_ELEM_LIST_TABLE, k.table.Name).PutString(unix.NFTA_SET_ELEM_LIST_SET, name)
	err := k.dump(ctx, unix.NFT_MSG_GETSETELEM, request, begin, func(answer nfnetlink.Attrs) {
		for _, e := range answer.Get(unix.NFTA_SET_ELEM_LIST_ELEMENTS).All() {
			each(element{datum(e.Get(unix.NFTA_SET_ELEM_KEY)), datum(e.Get(unix.NFTA_SET_ELEM_DATA))})
		}
	})
	if err != nil && !errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("reading the set %s: %w", name, err)
	}
	return nil
}

// datum is a key, or a value: of a verdict the chain, or that it drops. It is empty for none.
func datum(attrs nfnetlink.Attrs) string {
	value, chain := attrs.Get(unix.NFTA_DATA_VALUE), attrs.Get(unix.NFTA_DATA_VERDICT).Get(unix.NFTA_VERDICT_CHAIN)
	switch {
	case attrs == nil:
		return ""
	case value != nil:
		return string(value)
	case chain != nil:
		return chain.Text()
	default:
		return tables.Drop
	}
}

// readServed reads the fronts of an earlier agent.
func (k *kernel) readServed(ctx context.Context) (all []model.ServicePort, err error) {
	for _, s := range tables.Served {
		others := len(all)
		err = k.list(ctx, string(s), func() { all = all[:others] }, func(e element) {
			if port := tables.PortAt(e.of); port.Name.Protocol == model.UDP || port.Name.Protocol == model.SCTP {
				all = append(all, port)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// rules returns policy and handles of the rules of all chains.
func (k *kernel) rules(ctx context.Context) (map[string]string, error) {
	policies := map[string]string{}
	err := k.dump(ctx, unix.NFT_MSG_GETCHAIN, nil, func() { clear(policies) }, func(answer nfnetlink.Attrs) {
		policies[answer.Get(unix.NFTA_CHAIN_NAME).Text()] = policy(uint32(answer.Get(unix.NFTA_CHAIN_POLICY).Number()))
	})
	if err != nil {
		return nil, fmt.Errorf("listing chains: %w", err)
	}
	handles, err := k.handles(ctx)
	for name := range policies {
		policies[name] += handles[name]
	}
	return policies, err
}

func policy(of uint32) string { return fmt.Sprint("policy ", of, " ") }

// handles returns those of the rules of all chains, or of some, quickly asked for one by one.
func (k *kernel) handles(ctx context.Context, some ...string) (map[string]string, error) {
	all := map[string]string{}
	if len(some) == 0 {
		some = []string{""}
	}
	for _, name := range some {
		request, part := nfnetlink.Attrs(nil).PutString(unix.NFTA_RULE_TABLE, k.table.Name), map[string]string{}
		if name != "" {
			request = request.PutString(unix.NFTA_RULE_CHAIN, name)
		}
		err := k.dump(ctx, unix.NFT_MSG_GETRULE, request, func() { clear(part) }, func(answer nfnetlink.Attrs) {
			part[answer.Get(unix.NFTA_RULE_CHAIN).Text()] += fmt.Sprint(answer.Get(unix.NFTA_RULE_HANDLE).Number(), " ")
		})
		if err != nil {
			return nil, fmt.Errorf("reading rules: %w", err)
		}
		maps.Copy(all, part)
	}
	return all, nil
}

// invalidDropped reads how many packets the rule of invalid ones has counted.
func (k *kernel) invalidDropped(ctx context.Context) (n uint64, err error) {
	request := nfnetlink.Attrs(nil).PutString(unix.NFTA_RULE_TABLE, k.table.Name).PutString(unix.NFTA_RULE_CHAIN, tables.ChainForward)
	err = k.dump(ctx, unix.NFT_MSG_GETRULE, request, func() { n = 0 }, func(answer nfnetlink.Attrs) {
		for _, e := range answer.Get(unix.NFTA_RULE_EXPRESSIONS).All() {
			if e.Get(unix.NFTA_EXPR_NAME).Text() == "counter" {
				n += e.Get(unix.NFTA_EXPR_DATA).Get(unix.NFTA_COUNTER_PACKETS).Number()
			}
		}
	})
	return n, err
}
