//go:build linux

package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Options say what Run traces.
type Options struct {
	// Protocol is TCP when zero.
	Protocol model.Protocol
	// Src is the packet's source; one of this node's addresses, or the zero Addr, is the node itself.
	Src netip.Addr
	// Dst is where it is sent.
	Dst netip.AddrPort
	// Agent is the metrics address of this node's agent, which is asked what connect() does. If it is
	// empty, or none answers, nothing is said of that.
	Agent string
	// InInterface is where it comes in; empty: by the interface that leads back to Src.
	InInterface string
}

// Run sends the first packet of a connection through this node's rules, in the network namespace of
// the process, and writes which of them matched and what became of it. It needs CAP_NET_ADMIN,
// CAP_NET_RAW and nft, and iptables-legacy-save for rules of iptables-legacy. It removes what it
// adds to the node, and what a killed Run left. Run only one in a network namespace: a second one
// takes away what the first has added, and the first may then see less.
func Run(ctx context.Context, w io.Writer, o Options) (err error) {
	p, err := o.packet()
	if err != nil {
		return err
	}
	if err := Remove(ctx); err != nil {
		return err
	}
	l, err := listen(p.family())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	defer func() { err = errors.Join(err, Remove(context.WithoutCancel(ctx))) }()
	if err := nft(ctx, p.table()); err != nil {
		return fmt.Errorf("adding the table that marks the packet: %w", err)
	}
	if err := p.send(); err != nil {
		return fmt.Errorf("sending the packet: %w", err)
	}
	steps, err := l.steps(ctx)
	if err != nil {
		return err
	}
	return p.print(ctx, w, p.atConnect(ctx, o.Agent), steps)
}

// packet is the first one of a connection. An empty in stands for the node itself as its sender.
type packet struct {
	protocol model.Protocol
	src, dst netip.AddrPort
	in       string
	mark     uint16 // IPv4's identification, or IPv6's flow label: no rule of the agent or of another program looks at them, and no translation changes them
}

func (p packet) family() model.Family { return model.FamilyOf(p.dst.Addr()) }

// packet fills in what the options leave open.
func (o Options) packet() (packet, error) {
	p := packet{protocol: o.Protocol, dst: netip.AddrPortFrom(o.Dst.Addr().Unmap(), o.Dst.Port()), in: o.InInterface, mark: unlikely()}
	if p.protocol == 0 {
		p.protocol = model.TCP
	}
	if !p.dst.IsValid() || p.dst.Port() == 0 {
		return p, errors.New("an address and a port are needed to trace to")
	}
	src := o.Src.Unmap()
	if src.IsValid() && src.Is4() != p.dst.Addr().Is4() {
		return p, fmt.Errorf("%s and %s are of different families", src, p.dst.Addr())
	}
	var err error
	src, p.in, err = sender(src, p.dst.Addr(), p.in)
	p.src = netip.AddrPortFrom(src, port())
	return p, err
}

// sender tells what sends a packet: the node itself, without an interface, or a host behind one.
func sender(src, dst netip.Addr, in string) (netip.Addr, string, error) {
	if !src.IsValid() {
		r, err := routeTo(dst)
		if err != nil {
			return src, "", err
		}
		a, ok := netip.AddrFromSlice(r.Src)
		if !ok {
			return src, "", fmt.Errorf("routing names no address of this node to reach %s from", dst)
		}
		return a.Unmap(), "", nil
	}
	if in != "" {
		return src, in, nil
	}
	r, err := routeTo(src)
	if err != nil {
		return src, "", fmt.Errorf("looking for the interface that %s is behind: %w", src, err)
	}
	if r.Type == unix.RTN_LOCAL {
		return src, "", nil
	}
	link, err := netlink.LinkByIndex(r.LinkIndex)
	if err != nil {
		return src, "", fmt.Errorf("looking for the interface %d that %s is behind: %w", r.LinkIndex, src, err)
	}
	return src, link.Attrs().Name, nil
}

func routeTo(a netip.Addr) (netlink.Route, error) {
	routes, err := netlink.RouteGet(a.AsSlice())
	if err == nil && len(routes) == 0 {
		err = errors.New("there is none")
	}
	if err != nil {
		return netlink.Route{}, fmt.Errorf("asking for the route to %s: %w", a, err)
	}
	return routes[0], nil
}
