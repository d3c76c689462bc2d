//go:build linux

package trace

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// table is this program's; toHere and away are its chains behind all other chains.
const (
	table  = "cipa-trace"
	toHere = "input"
	away   = "postrouting"
)

// table has chains before and behind all other chains: the first start the trace, the last drop the
// packet, whatever became of its addresses. They stay as they were if another program's rule
// exempts it from connection tracking. One in 65,536 other packets between the two is hit.
func (p packet) table() string {
	ip, mark := "ip", fmt.Sprintf("ip id %d", p.mark)
	if p.family() == model.IPv6 {
		ip, mark = "ip6", fmt.Sprintf("ip6 flowlabel %d", p.mark)
	}
	src, dst := fmt.Sprintf("%s saddr %s", ip, p.src.Addr()), fmt.Sprintf("%s daddr %s", ip, p.dst.Addr())
	start := fmt.Sprintf("%s %s %s meta nftrace set 1", mark, src, dst)
	end := fmt.Sprintf("%s ct original %s ct original %s drop\n%[1]s %[2]s %[3]s drop", mark, src, dst)
	var b strings.Builder
	for _, c := range []struct{ hook, priority, rules string }{{"prerouting", "-500", start}, {"output", "-500", start}, {toHere, "500", end}, {away, "500", end}} {
		fmt.Fprintf(&b, "chain %s {\ntype filter hook %s priority %s; policy accept;\n%s\n}\n", c.hook, c.hook, c.priority, c.rules)
	}
	return fmt.Sprintf("create table inet %s\ntable inet %s {\n%s}\n", table, table, &b)
}

// unlikely is a mark that one in 65,536 other packets has by chance. The kernel replaces zero.
func unlikely() uint16 { return uint16(1 + rand.N(1<<16-1)) }

// Remove takes away what a killed Run may have left: our table, and our pair of interfaces.
func Remove(ctx context.Context) error {
	link, err := netlink.LinkByName(outside)
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("removing the interface %s: %w", outside, err)
	}
	// Adding it first makes the deletion succeed in any case.
	return errors.Join(err, nft(ctx, fmt.Sprintf("add table inet %s\ndelete table inet %s\n", table, table)))
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
