//go:build linux

package trace

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Numbers of the kernel that golang.org/x/sys does not name: linux/netfilter/nfnetlink.h and nfnetlink_log.h.
const (
	groupOfTraces = 9
	ulog          = 4
	ulogPacket    = ulog << 8
	ulogConfig    = ulog<<8 | 1
	ulogCommand   = 1
	ulogThreshold = 5
	ulogPrefix    = 10
	ulogBind      = 1
	nftTrace      = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_TRACE
)

const (
	quiet   = 500 * time.Millisecond // the kernel reports while it handles the packet
	longest = 10 * time.Second
)

// listener receives what the kernel reports of packets that are traced.
type listener struct {
	*nl.NetlinkSocket
	restore func() error
}

// listen starts to listen. The log of netfilter is listened to only where rules of iptables-legacy exist: for that the node's log of that family is switched over until Close.
func listen(f model.Family) (*listener, error) {
	s, err := nl.Subscribe(unix.NETLINK_NETFILTER, groupOfTraces)
	if err != nil {
		return nil, fmt.Errorf("listening for traces: %w", err)
	}
	l := &listener{NetlinkSocket: s, restore: func() error { return nil }}
	if err := s.SetReceiveTimeout(&unix.Timeval{Usec: quiet.Microseconds()}); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if iptables.LegacyInUse(f) {
		err = l.listenToLog(f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listening to the log of netfilter: %w", err), l.Close())
	}
	return l, nil
}

// Close leaves the node's log as it was.
func (l *listener) Close() error {
	l.NetlinkSocket.Close()
	return l.restore()
}

// listenToLog receives group 0 of the log, to which iptables-legacy reports, each message at once.
func (l *listener) listenToLog(f model.Family) error {
	for _, a := range []*nl.RtAttr{nl.NewRtAttr(ulogCommand, []byte{ulogBind}), nl.NewRtAttr(ulogThreshold, []byte{0, 0, 0, 1})} {
		r := nl.NewNetlinkRequest(ulogConfig, unix.NLM_F_ACK)
		r.AddData(&nl.Nfgenmsg{NfgenFamily: uint8(unix.AF_UNSPEC), Version: nl.NFNETLINK_V0})
		r.AddData(a)
		if err := l.Send(r); err != nil {
			return err
		}
		if err := l.acknowledged(); err != nil {
			return err
		}
	}
	return l.switchLog(f)
}

func (l *listener) acknowledged() error {
	messages, _, err := l.Receive()
	if err != nil {
		return err
	}
	for _, m := range messages {
		if m.Header.Type == unix.NLMSG_ERROR {
			if n := int32(binary.NativeEndian.Uint32(m.Data)); n != 0 {
				return syscall.Errno(-n)
			}
		}
	}
	return nil
}

// switchLog lets netfilter log to sockets. In a container without privileges /proc/sys is read-only, and our DaemonSet has the node's elsewhere.
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
		messages, _, err := l.Receive()
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
	table, chain string // of whom the rule is
	kind         uint32 // NFT_TRACETYPE_*, of nftables alone
	rule         uint64 // the handle of a rule of nftables; the number of a rule of iptables-legacy in its chain, from 1
	verdict      int32  // of nftables alone
	header       []byte // of IP, as the packet is then; only in the first step of a hook
	transport    []byte
}

// dropped is never true for iptables-legacy, which reports no verdicts.
func (s step) dropped() bool {
	return !s.legacy && s.verdict == 0 && s.kind != unix.NFT_TRACETYPE_RETURN
}

// stepOf reads a message. Others than traces are none.
func stepOf(m syscall.NetlinkMessage) (s step, ok bool) {
	if m.Header.Type != nftTrace && m.Header.Type != ulogPacket || len(m.Data) < nl.SizeofNfgenmsg {
		return s, false
	}
	attrs, err := nl.ParseRouteAttrAsMap(m.Data[nl.SizeofNfgenmsg:])
	if err != nil {
		return s, false
	}
	value := func(kind uint16) []byte { return attrs[kind].Value }
	if m.Header.Type == ulogPacket {
		return logged(m.Data[0], text(value(ulogPrefix)))
	}
	s = step{
		family: m.Data[0], table: text(value(unix.NFTA_TRACE_TABLE)), chain: text(value(unix.NFTA_TRACE_CHAIN)), kind: uint32(number(value(unix.NFTA_TRACE_TYPE))),
		rule: number(value(unix.NFTA_TRACE_RULE_HANDLE)), header: value(unix.NFTA_TRACE_NETWORK_HEADER), transport: value(unix.NFTA_TRACE_TRANSPORT_HEADER),
	}
	code := value(unix.NFTA_TRACE_POLICY)
	if verdict, err := nl.ParseRouteAttrAsMap(value(unix.NFTA_TRACE_VERDICT)); err == nil && len(verdict) > 0 {
		code = verdict[unix.NFTA_VERDICT_CODE].Value
	}
	s.verdict = int32(number(code))
	return s, true
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

func text(b []byte) string { return string(bytes.TrimRight(b, "\x00")) }

// number reads an integer of the kernel's, of any width.
func number(b []byte) (n uint64) {
	for _, x := range b {
		n = n<<8 | uint64(x)
	}
	return n
}
