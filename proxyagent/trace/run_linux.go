package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Options say what Run traces.
type Options struct {
	// Mode is the variant of iptables: nft, legacy, or auto, which is also meant by the empty string: the one that has our chains.
	Mode string
	// Protocol is TCP when zero.
	Protocol model.Protocol
	// Src is where the packet comes from. One of this node's addresses, and the zero Addr, stand for the node itself.
	Src netip.Addr
	// Dst is where it is sent.
	Dst netip.AddrPort
	// InInterface is where it comes in; empty: by the interface that leads back to Src.
	InInterface string
}

// Run reads the rules, sets, addresses and routes of this node, in the network namespace of the process, and writes what becomes of a
// packet. It needs CAP_NET_ADMIN, the programs of iptables and, where rules ask for sets, ipset. Nothing is written when it fails.
func Run(ctx context.Context, w io.Writer, o Options) error {
	p, err := o.packet(kernel{ctx})
	if err != nil {
		return err
	}
	rules, note, err := read(ctx, o.Mode, model.FamilyOf(p.Dst.Addr()))
	if err != nil {
		return err
	}
	path, err := Walk(p, rules.Ruleset, kernel{ctx})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("walking the rules of iptables-%s: %w", rules.mode, err)
	}
	if note != "" {
		note += "\n"
	}
	_, err = fmt.Fprintf(w, "Rules of iptables-%s: %d\n%s%s", rules.mode, rules.Rules(), note, path)
	return err
}

// packet fills in what the options leave open.
func (o Options) packet(k kernel) (Packet, error) {
	p := Packet{Protocol: o.Protocol, Src: o.Src.Unmap(), Dst: netip.AddrPortFrom(o.Dst.Addr().Unmap(), o.Dst.Port()), In: o.InInterface}
	if p.Protocol == 0 {
		p.Protocol = model.TCP
	}
	if !p.Dst.IsValid() || p.Dst.Port() == 0 {
		return p, errors.New("an address and a port are needed to trace to")
	}
	if p.Src.IsValid() && p.Src.Is4() != p.Dst.Addr().Is4() {
		return p, fmt.Errorf("%s and %s are of different families", p.Src, p.Dst.Addr())
	}
	return k.sender(p)
}

// sender finds out who sends a packet: the node itself, or somebody behind an interface.
func (k kernel) sender(p Packet) (Packet, error) {
	if !p.Src.IsValid() {
		r, err := routeTo(p.Dst.Addr(), nil)
		if err != nil {
			return p, err
		}
		src, ok := netip.AddrFromSlice(r.Src)
		if !ok {
			return p, fmt.Errorf("routing names no address of this node to reach %s from", p.Dst.Addr())
		}
		p.Src = src.Unmap()
		return p, nil
	}
	if p.In != "" {
		_, err := netlink.LinkByName(p.In)
		if err != nil {
			err = fmt.Errorf("looking for the interface %s: %w", p.In, err)
		}
		return p, err
	}
	local, err := k.Local(p.Src)
	if err != nil || local {
		return p, err
	}
	p.In, err = k.Route(Packet{Dst: netip.AddrPortFrom(p.Src, 0)}, 0)
	if err != nil {
		return p, fmt.Errorf("looking for the interface that %s is behind: %w", p.Src, err)
	}
	return p, nil
}
