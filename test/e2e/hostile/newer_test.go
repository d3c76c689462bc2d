package hostile_test

import (
	"context"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// newer holds the messages of a newer nft that make a table with a set.
//
//go:embed testdata/set-by-newer-nft.txt
var newer string

// newerSet is a firewall on the node whose nft is newer than the one that the agent may find, and a
// tenant with session affinity, for which an agent may run that program. Older versions of nft end
// with a signal when they come upon the set, whatever they are asked about other tables.
func newerSet(env *fixture) party {
	t := tenant{env}
	var service *corev1.Service
	return party{
		what: "a set of a newer nft, beside a Service with session affinity", every: 100 * time.Millisecond,
		enter: func(ctx context.Context) (err error) {
			if err := env.Node.Do(writeNewer); err != nil {
				return err
			}
			service, err = t.create(ctx, "newer", func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
			return err
		},
		act: func(ctx context.Context, i int) error { return t.endpoints(ctx, service, 0, 10+i%2) },
		leave: func(ctx context.Context) {
			t.leave(ctx)
			Expect(env.Node.Do(func() error {
				conn := &nftables.Conn{}
				conn.DelTable(&nftables.Table{Name: "newer", Family: nftables.TableFamilyINet})
				return conn.Flush()
			})).To(Succeed())
		},
	}
}

// writeNewer sends the messages of newer to the kernel, as one transaction.
func writeNewer() error {
	const familyINet = 1
	types := map[string]netlink.HeaderType{"NEWTABLE": unix.NFT_MSG_NEWTABLE, "NEWSET": unix.NFT_MSG_NEWSET}
	border := []byte{0, 0, 0, unix.NFNL_SUBSYS_NFTABLES} // nfgenmsg with the subsystem
	batch := []netlink.Message{{Header: netlink.Header{Type: unix.NFNL_MSG_BATCH_BEGIN, Flags: netlink.Request}, Data: border}}
	for line := range strings.Lines(newer) {
		name, attributes, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(name, "#") {
			continue
		}
		data, err := hex.DecodeString(strings.TrimSpace(attributes))
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		batch = append(batch, netlink.Message{
			Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | types[name], Flags: netlink.Request | netlink.Create | netlink.Acknowledge},
			Data:   append([]byte{familyINet, 0, 0, 0}, data...),
		})
	}
	batch = append(batch, netlink.Message{Header: netlink.Header{Type: unix.NFNL_MSG_BATCH_END, Flags: netlink.Request}, Data: border})
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("reaching nf_tables: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.SendMessages(batch); err != nil {
		return fmt.Errorf("writing the set of a newer nft: %w", err)
	}
	for range len(batch) - 2 { // an acknowledgement of each, or an error
		if _, err := conn.Receive(); err != nil {
			return fmt.Errorf("writing the set of a newer nft: %w", err)
		}
	}
	return nil
}
