//go:build linux

package nftables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// kernel is our table of one family.
type kernel struct {
	conn  *nftables.Conn
	table *nftables.Table
}

// perMessage is how many elements are in one message, as an attribute has less than 64 KiB; perTransaction bounds what the socket takes at once.
const perMessage, perTransaction = 500, 40_000

// socketBuffer has room for a transaction, and for the answers to all of its messages.
const socketBuffer = 16 << 20

func open(f model.Family) (*kernel, error) {
	family := nftables.TableFamilyIPv4
	if f == model.IPv6 {
		family = nftables.TableFamilyIPv6
	}
	k := &kernel{table: &nftables.Table{Name: table, Family: family}}
	return k, k.connect()
}

func (k *kernel) connect() error {
	room := func(c *netlink.Conn) error {
		return errors.Join(c.SetWriteBuffer(socketBuffer), c.SetReadBuffer(socketBuffer))
	}
	c, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(room))
	if err != nil {
		return fmt.Errorf("reaching nf_tables: %w", err)
	}
	k.conn = c
	return nil
}

// reconnect is for after a failure: answers that nobody has read may wait in the socket.
func (k *kernel) reconnect() error {
	k.close()
	return k.connect()
}

// Usable returns why the table of a family cannot be written; nil when it can. The table and the sets are written and taken away again, in one transaction that changes nothing.
func Usable(f model.Family) error {
	k, err := open(f)
	if err != nil {
		return err
	}
	defer k.close()
	probe := *k
	probe.table = &nftables.Table{Name: table + "-probe", Family: k.table.Family}
	t := transaction{kernel: &probe}
	t.declare(nil)
	k.conn.DelTable(probe.table)
	if t.flush(); t.err != nil {
		return fmt.Errorf("writing tables of nftables (kernel 5.13 or later, and NET_ADMIN): %w", t.err)
	}
	return nil
}

// Cleanup takes our table away, and returns what it did in words. Nothing of others is touched.
func Cleanup(f model.Family, dryRun bool) ([]string, error) {
	k, err := open(f)
	if err != nil {
		return nil, err
	}
	defer k.close()
	there, err := k.exists()
	if err != nil || !there {
		return nil, err
	}
	did := []string{fmt.Sprintf("%s nftables: the table %s", f, table)}
	if !dryRun {
		k.conn.DelTable(k.table)
		err = k.conn.Flush()
	}
	if err != nil {
		return nil, fmt.Errorf("removing the table %s: %w", table, err)
	}
	return did, nil
}

func (k *kernel) close() { _ = k.conn.CloseLasting() }

// exists reports whether our table is there.
func (k *kernel) exists() (bool, error) {
	tables, err := k.conn.ListTablesOfFamily(k.table.Family)
	if err != nil {
		return false, fmt.Errorf("listing tables: %w", err)
	}
	return slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == k.table.Name }), nil
}

// set describes one of the sets that exist always.
func (k *kernel) set(name set) *nftables.Set {
	schema := schemas[name]
	s := &nftables.Set{Table: k.table, Name: string(name), KeyType: k.fields(schema.key), Interval: name == allowed, Concatenation: len(schema.key) > 1}
	switch schema.kind {
	case verdict:
		s.IsMap, s.DataType = true, nftables.TypeVerdict
	case endpoint:
		s.IsMap, s.DataType = true, k.fields("AS")
	}
	return s
}

// clients describes a map of clients.
func (k *kernel) clients(name string) *nftables.Set {
	return &nftables.Set{Table: k.table, Name: name, KeyType: k.fields("A"), DataType: k.fields("AS"), IsMap: true, Dynamic: true, HasTimeout: true, Size: 65536}
}

func (k *kernel) fields(of string) nftables.SetDatatype {
	types := map[rune]nftables.SetDatatype{'A': nftables.TypeIPAddr, 'P': nftables.TypeInetProto, 'S': nftables.TypeInetService, 'I': nftables.TypeMark}
	if k.table.Family == nftables.TableFamilyIPv6 {
		types['A'] = nftables.TypeIP6Addr
	}
	var all []nftables.SetDatatype
	for _, c := range of {
		all = append(all, types[c])
	}
	if len(all) == 1 {
		return all[0]
	}
	return nftables.MustConcatSetType(all...)
}

func elementOf(k key, value string, withValue bool) nftables.SetElement {
	e := nftables.SetElement{Key: []byte(k.of)}
	if k.to != "" {
		e.KeyEnd = []byte(k.to)
	}
	switch kind := schemas[k.set].kind; {
	case !withValue || kind == member:
	case kind == endpoint:
		e.Val = []byte(value)
	case value == drop:
		e.VerdictData = &expr.Verdict{Kind: expr.VerdictDrop}
	default:
		e.VerdictData = &expr.Verdict{Kind: expr.VerdictGoto, Chain: value}
	}
	return e
}

// transaction gathers messages, and sends them when they are all or too many for the socket. The kernel does all of them that are sent at once, or nothing.
type transaction struct {
	*kernel
	elements int
	done     uint32
	err      error
}

// add adds messages.
func (t *transaction) add(elements int, send func() error) {
	if t.elements += elements; t.elements > perTransaction {
		t.flush()
		t.elements = elements
	}
	if t.err == nil {
		t.err = send()
	}
}

func (t *transaction) flush() {
	if t.err == nil {
		t.err = t.conn.Flush()
		t.done++
	}
	t.elements = 0
}

// declaring is held while sets are added: the library counts them for all families together, without a lock.
var declaring sync.Mutex

// declare adds the table with its sets, which may be there.
func (t *transaction) declare(clients []string) {
	t.conn.AddTable(t.table)
	sets := make([]*nftables.Set, 0, len(schemas)+len(clients))
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		sets = append(sets, t.set(name))
	}
	for _, name := range clients {
		sets = append(sets, t.clients(name))
	}
	declaring.Lock()
	defer declaring.Unlock()
	for _, s := range sets {
		t.add(0, func() error { return t.conn.AddSet(s, nil) })
	}
}

// write gives chains their rules. The chains themselves come first: rules of one lead to another.
func (t *transaction) write(chains map[string]chain, anew []string) {
	for _, name := range anew {
		c := &nftables.Chain{Name: name, Table: t.table}
		if h := chains[name].hook; h.kind != "" {
			c.Type, c.Hooknum, c.Priority = h.kind, new(nftables.ChainHook(h.number)), new(nftables.ChainPriority(h.priority))
		}
		t.conn.AddChain(c)
		t.conn.FlushChain(c)
	}
	for _, name := range anew {
		for _, r := range chains[name].rules {
			t.conn.AddRule(&nftables.Rule{Table: t.table, Chain: &nftables.Chain{Name: name, Table: t.table}, Exprs: r})
		}
	}
}

// text are the rules of some chains that the program nft has to write.
func (k *kernel) text(chains map[string]chain, anew []string) string {
	var b strings.Builder
	for _, name := range anew {
		for _, r := range chains[name].text {
			fmt.Fprintf(&b, "add rule %s %s %s %s\n", map[nftables.TableFamily]string{nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6"}[k.table.Family], table, name, r)
		}
	}
	return b.String()
}

// nft applies text as one transaction.
func nft(ctx context.Context, text string) error {
	c := exec.CommandContext(ctx, "nft", "-f", "-")
	c.Stdin = strings.NewReader(text)
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("nft: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// change brings elements to what is wanted: those that the kernel has are deleted first.
func (t *transaction) change(changed map[key]change) {
	gone, come := map[set][]nftables.SetElement{}, map[set][]nftables.SetElement{}
	for k, c := range changed {
		if c.there {
			gone[k.set] = append(gone[k.set], elementOf(k, "", false))
		}
		if c.wanted {
			come[k.set] = append(come[k.set], elementOf(k, c.value, true))
		}
	}
	t.send(gone, t.conn.SetDeleteElements)
	t.send(come, t.conn.SetAddElements)
}

func (t *transaction) send(all map[set][]nftables.SetElement, send func(*nftables.Set, []nftables.SetElement) error) {
	for name, elements := range all {
		s := t.set(name)
		for some := range slices.Chunk(elements, perMessage) {
			t.add(len(some), func() error { return send(s, some) })
		}
	}
}

// remove takes away chains that nothing leads to any more, and maps of clients.
func (t *transaction) remove(chains, clients []string) {
	for _, name := range chains {
		t.conn.FlushChain(&nftables.Chain{Name: name, Table: t.table})
	}
	for _, name := range chains {
		t.conn.DelChain(&nftables.Chain{Name: name, Table: t.table})
	}
	for _, name := range clients {
		t.conn.DelSet(t.clients(name))
	}
}

// there is what the kernel has.
type there struct {
	elements map[key]string
	rules    map[string]string // by chain: the handles of its rules, which are never used twice
	clients  map[string]bool
}

func (k *kernel) read() (t there, err error) {
	t = there{map[key]string{}, map[string]string{}, map[string]bool{}}
	if yes, err := k.exists(); err != nil || !yes {
		return t, err
	}
	if err := k.readRules(t.rules); err != nil {
		return t, err
	}
	sets, err := k.conn.GetSets(k.table)
	if err != nil {
		return t, fmt.Errorf("listing sets: %w", err)
	}
	for _, s := range sets {
		if strings.HasPrefix(s.Name, "clients-") {
			t.clients[s.Name] = true
		} else if _, ours := schemas[set(s.Name)]; ours {
			if err := k.readSet(set(s.Name), t.elements); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

// readRules does not use the library, which cannot read all of our rules. Chains without rules have no handles.
func (k *kernel) readRules(all map[string]string) error {
	chains, err := k.conn.ListChainsOfTableFamily(k.table.Family)
	if err != nil {
		return fmt.Errorf("listing chains: %w", err)
	}
	for _, c := range chains {
		if c.Table.Name == table {
			all[c.Name] = ""
		}
	}
	conn, err := nfnetlink.Open()
	if err != nil {
		return err
	}
	defer conn.Close()
	r := nfnetlink.Request{
		Subsystem: unix.NFNL_SUBSYS_NFTABLES, Command: unix.NFT_MSG_GETRULE, Family: uint8(k.table.Family),
		Attrs: nfnetlink.Attrs(nil).PutString(unix.NFTA_RULE_TABLE, table),
	}
	err = conn.Dump(r, func(answer nfnetlink.Attrs) {
		attrs := maps.Collect(answer.All())
		if attrs[unix.NFTA_RULE_TABLE].Text() == table {
			all[attrs[unix.NFTA_RULE_CHAIN].Text()] += fmt.Sprint(attrs[unix.NFTA_RULE_HANDLE].Net64(), " ")
		}
	})
	if err != nil {
		return fmt.Errorf("reading rules: %w", err)
	}
	return nil
}

func (k *kernel) readSet(name set, all map[key]string) error {
	elements, err := k.conn.GetSetElements(k.set(name))
	if err != nil {
		return fmt.Errorf("reading the set %s: %w", name, err)
	}
	for _, e := range elements {
		of, value := key{set: name, of: string(e.Key), to: string(e.KeyEnd)}, string(e.Val)
		if schemas[name].kind == verdict { // the library returns it as it stands in the message
			if value = maps.Collect(nfnetlink.Attrs(e.Val).All())[unix.NFTA_VERDICT_CHAIN].Text(); value == "" {
				value = drop
			}
		}
		all[of] = value
	}
	return nil
}

// forget deletes the clients of a map whose endpoint is not usable any more.
func (k *kernel) forget(name string, usable map[string]bool) error {
	m := k.clients(name)
	elements, err := k.conn.GetSetElements(m)
	if err != nil {
		return fmt.Errorf("reading the clients of a port: %w", err)
	}
	for _, e := range elements {
		if usable[string(e.Val)] {
			continue
		}
		if err := k.conn.SetDeleteElements(m, []nftables.SetElement{{Key: e.Key}}); err != nil {
			return err
		}
		if err := k.conn.Flush(); err != nil && !strings.Contains(err.Error(), unix.ENOENT.Error()) { // it may have run out meanwhile
			return fmt.Errorf("forgetting a client: %w", err)
		}
	}
	return nil
}
