package hostile_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"
	. "github.com/onsi/gomega"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// flood is the mark of the connections of fullTable, by which they are taken away.
const flood = 0x0badf00d

// searches is how often the agent has to look for stale flows in the full table, in both families.
const searches = 4

// fullTable fills the table of connections of the node's namespace with UDP flows that nothing
// answered, as a flood of datagrams from forged addresses does. The kernel then drops one of these
// for each new connection. The kernel counts the connections of each namespace by itself against
// one limit for all, nf_conntrack_max, that only the root namespace may set: so the test makes as
// many connections as that says, and the root namespace loses nothing but memory for the moment
// (about 80 MiB for the 262,144 of most machines) and finds its own in longer lists.
//
// A table full of connections that were answered cannot be endured: the kernel drops each new
// connection then, of any program, before any rule of the agent is looked at.
func fullTable(env *fixture) party {
	full := -1.0 // searches when it was
	return party{
		what: "a table of connections that is full of unanswered datagrams",
		enter: func(context.Context) error {
			limit, err := number("/proc/sys/net/netfilter/nf_conntrack_max")
			if err != nil {
				return err
			}
			return env.Node.Do(func() error { return env.fill(limit) })
		},
		enough: func(ctx context.Context) bool {
			done := env.Metric(ctx, "conntrack_reconciler_sync_duration_seconds_count")
			if full < 0 {
				full = done
			}
			return done >= full+searches
		},
		meanwhile: func(context.Context) {
			limit, err := number("/proc/sys/net/netfilter/nf_conntrack_max")
			Expect(err).NotTo(HaveOccurred())
			Expect(env.Node.Do(func() error {
				count, err := number("/proc/sys/net/netfilter/nf_conntrack_count")
				Expect(count).To(BeNumerically(">", limit*99/100), "the table was not full")
				return err
			})).To(Succeed())
		},
		leave: func(context.Context) {
			Expect(env.Node.Do(func() error {
				conn, err := nfnetlink.Open()
				if err != nil {
					return err
				}
				defer conn.Close()
				return conn.Do(nfnetlink.Request{
					Subsystem: unix.NFNL_SUBSYS_CTNETLINK, Command: nl.IPCTNL_MSG_CT_DELETE,
					Attrs: nfnetlink.Attrs(nil).PutNet32(nl.CTA_MARK, flood).PutNet32(markMask, 0xffffffff),
				})
			})).To(Succeed())
		},
	}
}

func number(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// markMask is CTA_MARK_MASK, which package nl lacks.
const markMask = 21

// fill makes connections until there are as many as the kernel allows.
func (env *fixture) fill(limit int) error {
	const together = 256
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("reaching connection tracking: %w", err)
	}
	defer func() { _ = conn.Close() }()
	for i := 0; i < limit; i += together {
		messages := make([]netlink.Message, together)
		for j := range messages {
			messages[j] = env.creation(i + j)
		}
		if _, err := conn.SendMessages(messages); err != nil {
			return fmt.Errorf("making connection %d of %d: %w", i, limit, err)
		}
	}
	return nil
}

// creation is the message that makes the i-th connection, from outside to the node. Those of the
// two families take turns.
func (env *fixture) creation(i int) netlink.Message {
	const sources, port = 60_000, 30_999
	f, n := network.Families[i%2], i/2
	from := netip.AddrPortFrom(env.Client.Extra(f, 1+n%sources), uint16(1024+n/sources))
	to := netip.AddrPortFrom(env.Node.Addr(f), port)
	attrs := nfnetlink.Attrs(nil).
		Nest(nl.CTA_TUPLE_ORIG, tuple(from, to)).Nest(nl.CTA_TUPLE_REPLY, tuple(to, from)).
		PutNet32(nl.CTA_TIMEOUT, 600).PutNet32(nl.CTA_MARK, flood)
	return netlink.Message{
		Header: netlink.Header{
			Type:  netlink.HeaderType(unix.NFNL_SUBSYS_CTNETLINK<<8 | nl.IPCTNL_MSG_CT_NEW),
			Flags: netlink.Request | netlink.Create | netlink.Excl,
		},
		Data: append([]byte{familyNumber(f), nl.NFNETLINK_V0, 0, 0}, attrs...),
	}
}

// tuple appends one direction of a UDP flow.
func tuple(from, to netip.AddrPort) func(nfnetlink.Attrs) nfnetlink.Attrs {
	sourceKind, destinationKind := uint16(nl.CTA_IP_V4_SRC), uint16(nl.CTA_IP_V4_DST)
	if to.Addr().Is6() {
		sourceKind, destinationKind = nl.CTA_IP_V6_SRC, nl.CTA_IP_V6_DST
	}
	return func(a nfnetlink.Attrs) nfnetlink.Attrs {
		return a.
			Nest(nl.CTA_TUPLE_IP, func(a nfnetlink.Attrs) nfnetlink.Attrs {
				return a.Put(sourceKind, from.Addr().AsSlice()...).Put(destinationKind, to.Addr().AsSlice()...)
			}).
			Nest(nl.CTA_TUPLE_PROTO, func(a nfnetlink.Attrs) nfnetlink.Attrs {
				return a.Put(nl.CTA_PROTO_NUM, unix.IPPROTO_UDP).
					PutNet16(nl.CTA_PROTO_SRC_PORT, from.Port()).PutNet16(nl.CTA_PROTO_DST_PORT, to.Port())
			})
	}
}

func familyNumber(f model.Family) byte {
	if f == model.IPv6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}
