package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables"
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
	if k.Local(p.Src) {
		return p, nil
	}
	var err error
	p.In, err = k.Route(Packet{Dst: netip.AddrPortFrom(p.Src, 0)}, 0)
	if err != nil {
		return p, fmt.Errorf("looking for the interface that %s is behind: %w", p.Src, err)
	}
	return p, nil
}

// rulesOf are the rules of one variant.
type rulesOf struct {
	mode iptables.Mode
	Ruleset
	ours bool // there are chains of ours
}

// read returns the rules of the mode that is asked for, and what is to be said about the others.
func read(ctx context.Context, mode string, f model.Family) (best rulesOf, note string, err error) {
	modes := []iptables.Mode{iptables.Mode(mode)}
	if mode == "" || mode == "auto" {
		modes = []iptables.Mode{iptables.NFT}
		if iptables.LegacyInUse(f) {
			modes = append(modes, iptables.Legacy)
		}
	}
	var missing error
	for _, m := range modes {
		r, err := save(ctx, m, f)
		switch {
		case errors.Is(err, exec.ErrNotFound):
			missing = err
			continue
		case err != nil:
			return rulesOf{}, "", err
		case best.mode == "":
			best = r
			continue
		case r.ours && !best.ours || r.ours == best.ours && r.Rules() > best.Rules():
			best, r = r, best
		}
		if r.Rules() > 0 {
			note = fmt.Sprintf("The kernel also asks those of iptables-%s, %d, which are not walked here.\n", r.mode, r.Rules())
		}
	}
	if best.mode == "" {
		return best, "", missing
	}
	return best, note, nil
}

func save(ctx context.Context, mode iptables.Mode, f model.Family) (rulesOf, error) {
	out, err := iptables.Save(ctx, mode, f)
	if err != nil {
		return rulesOf{}, err
	}
	r, err := Parse(string(out))
	return rulesOf{mode: mode, Ruleset: r, ours: bytes.Contains(out, []byte("\n:CIPA-"))}, err
}

// kernel is the Node of this node, in the network namespace of the process.
type kernel struct{ ctx context.Context }

// Kind requests only the header of a set, however large it is.
func (k kernel) Kind(set string) (string, error) {
	out, err := exec.CommandContext(k.ctx, "ipset", "list", "-t", set).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("asking ipset: %w: %s", err, strings.TrimSpace(string(out)))
	}
	for line := range strings.Lines(string(out)) {
		if kind, ok := strings.CutPrefix(line, "Type: "); ok {
			return strings.TrimSpace(kind), nil
		}
	}
	return "", fmt.Errorf("ipset names no type")
}

// Has lets the kernel test, which knows about networks, time-outs and exceptions.
func (k kernel) Has(set, entry string) (bool, error) {
	out, err := exec.CommandContext(k.ctx, "ipset", "test", set, entry).CombinedOutput()
	var exit *exec.ExitError
	switch text := strings.TrimSpace(string(out)); {
	case err == nil:
		return true, nil
	case errors.As(err, &exit) && strings.Contains(text, "is NOT in set"):
		return false, nil
	default:
		return false, fmt.Errorf("asking ipset: %w: %s", err, text)
	}
}

// Local looks up a route, since whole prefixes may be local.
func (k kernel) Local(a netip.Addr) bool {
	r, err := routeTo(a, nil)
	return err == nil && r.Type == unix.RTN_LOCAL
}

// Route looks up with all known fields of the packet, so that policy routing gives the same answer.
func (k kernel) Route(p Packet, mark uint32) (string, error) {
	o := &netlink.RouteGetOptions{Iif: p.In, Mark: mark}
	if p.Src.IsValid() {
		o.SrcAddr = p.Src.AsSlice()
	}
	r, err := routeTo(p.Dst.Addr(), o)
	if err != nil {
		return "", err
	}
	link, err := netlink.LinkByIndex(r.LinkIndex)
	if err != nil {
		return "", fmt.Errorf("asking for the interface %d: %w", r.LinkIndex, err)
	}
	return link.Attrs().Name, nil
}

func routeTo(a netip.Addr, o *netlink.RouteGetOptions) (netlink.Route, error) {
	routes, err := netlink.RouteGetWithOptions(a.AsSlice(), o)
	if err == nil && len(routes) == 0 {
		err = errors.New("there is none")
	}
	if err != nil {
		return netlink.Route{}, fmt.Errorf("asking for the route to %s: %w", a, err)
	}
	return routes[0], nil
}
