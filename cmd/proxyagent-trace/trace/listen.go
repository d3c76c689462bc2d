//go:build linux

package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// Kernel numbers that golang.org/x/sys lacks: linux/netfilter/nfnetlink.h and nfnetlink_log.h.
const (
	groupOfTraces = 9
	ulog          = 4
	ulogPacket    = 0
	ulogConfig    = 1
	ulogCommand   = 1
	ulogThreshold = 5
	ulogPrefix    = 10
	ulogBind      = 1
)

const (
	quiet   = 500 * time.Millisecond // the kernel reports while it handles the packet
	longest = 10 * time.Second
)

// listener receives what the kernel reports of packets that are traced.
type listener struct {
	*nfnetlink.Conn
	restore func() error
}

// listen starts to listen. Rules of iptables-legacy make it switch the family's log until Close.
func listen(f model.Family) (*listener, error) {
	c, err := nfnetlink.Open(groupOfTraces)
	if err != nil {
		return nil, fmt.Errorf("listening for traces: %w", err)
	}
	l := &listener{Conn: c, restore: func() error { return nil }}
	if !iptables.LegacyInUse(f) {
		return l, nil
	}
	if err := l.listenToLog(f); err != nil {
		return nil, errors.Join(fmt.Errorf("listening to the log of netfilter: %w", err), l.Close())
	}
	return l, nil
}

// Close leaves the node's log as it was.
func (l *listener) Close() error {
	l.Conn.Close()
	return l.restore()
}

// listenToLog receives group 0 of the log, to which iptables-legacy reports, each message at once.
func (l *listener) listenToLog(f model.Family) error {
	for _, attrs := range []nfnetlink.Attrs{nfnetlink.Attrs(nil).Put(ulogCommand, ulogBind), nfnetlink.Attrs(nil).Put(ulogThreshold, 0, 0, 0, 1)} {
		if err := l.Do(nfnetlink.Request{Subsystem: ulog, Command: ulogConfig, Attrs: attrs}); err != nil {
			return err
		}
	}
	return l.switchLog(f)
}

// switchLog has netfilter log to sockets. In a container without privileges /proc/sys is read-only,
// and our DaemonSet mounts the node's below /host.
func (l *listener) switchLog(f model.Family) error {
	number := map[model.Family]int{model.IPv4: unix.AF_INET, model.IPv6: unix.AF_INET6}[f]
	var errs []error
	for _, root := range []string{"/proc/sys", "/host/proc/sys"} {
		file := fmt.Sprintf("%s/net/netfilter/nf_log/%d", root, number)
		before, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, []byte("nfnetlink_log"), 0)
		}
		if err == nil {
			l.restore = func() error { return os.WriteFile(file, bytes.TrimSpace(before), 0) }
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// steps are all that is reported of the packet, to its end or until nothing more comes.
func (l *listener) steps(ctx context.Context) (all []step, err error) {
	for until := time.Now().Add(longest); time.Now().Before(until) && ctx.Err() == nil; {
		messages, err := l.Receive(quiet)
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("receiving the trace: %w", err)
		}
		for _, m := range messages {
			if s, ok := stepOf(m); ok {
				all = append(all, s)
			}
		}
		if len(all) > 0 && all[len(all)-1].dropped() {
			break
		}
	}
	return all, ctx.Err()
}

// step is what one rule, or the policy of a chain, did with the packet.
type step struct {
	legacy       bool   // a rule of iptables-legacy
	family       uint8  // of the table; for iptables-legacy, of the packet
	table, chain string // that the rule is in
	kind         uint32 // NFT_TRACETYPE_*, of nftables alone
	rule         uint64 // the handle of a rule of nftables; the number of a rule of iptables-legacy in its chain, from 1
	verdict      uint32 // of nftables alone
	header       []byte // of IP, as the packet is then; only in the first step of a hook
	transport    []byte
}

// dropped is never true for iptables-legacy, which reports no verdicts.
func (s step) dropped() bool {
	return !s.legacy && s.verdict == 0 && s.kind != unix.NFT_TRACETYPE_RETURN
}

// stepOf reads a message; ok is false unless it is a trace.
func stepOf(m nfnetlink.Message) (s step, ok bool) {
	attrs := maps.Collect(m.Attrs.All())
	if m.Subsystem == ulog && m.Command == ulogPacket {
		return logged(m.Family, attrs[ulogPrefix].Text())
	}
	s = step{
		family: m.Family, table: attrs[unix.NFTA_TRACE_TABLE].Text(), chain: attrs[unix.NFTA_TRACE_CHAIN].Text(), kind: uint32(attrs[unix.NFTA_TRACE_TYPE].Number()),
		rule: attrs[unix.NFTA_TRACE_RULE_HANDLE].Number(), verdict: uint32(attrs[unix.NFTA_TRACE_POLICY].Number()),
		header: attrs[unix.NFTA_TRACE_NETWORK_HEADER], transport: attrs[unix.NFTA_TRACE_TRANSPORT_HEADER],
	}
	if code := attrs[unix.NFTA_TRACE_VERDICT].Get(unix.NFTA_VERDICT_CODE); code != nil {
		s.verdict = uint32(code.Number())
	}
	return s, m.Subsystem == unix.NFNL_SUBSYS_NFTABLES && m.Command == unix.NFT_MSG_TRACE
}

// logged reads what iptables-legacy reports: TRACE: nat:CIPA-VIPS:rule:3, or policy, or return.
func logged(family uint8, prefix string) (s step, ok bool) {
	words := strings.Split(strings.TrimSpace(strings.TrimPrefix(prefix, "TRACE: ")), ":")
	if len(words) != 4 || !strings.HasPrefix(prefix, "TRACE: ") {
		return s, false
	}
	s = step{legacy: true, family: family, table: words[0], chain: words[1]}
	_, err := fmt.Sscan(words[3], &s.rule)
	return s, err == nil
}
