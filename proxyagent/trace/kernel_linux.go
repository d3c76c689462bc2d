package trace

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// kernel is the World of this node, in the network namespace of the process.
type kernel struct{ ctx context.Context }

// Kind asks for the head of a set alone, however large it is.
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

// Local asks routing, for whole prefixes may be local.
func (k kernel) Local(a netip.Addr) (bool, error) {
	r, err := routeTo(a, nil)
	if errors.Is(err, ErrNoRoute) {
		return false, nil
	}
	return r.Type == unix.RTN_LOCAL, err
}

// Route asks with all that is known of the packet, so that policy routing answers as it will.
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

// refusals are routing's answers for what it does not let through.
var refusals = []error{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EINVAL, syscall.EXDEV, syscall.EACCES}

func routeTo(a netip.Addr, o *netlink.RouteGetOptions) (netlink.Route, error) {
	routes, err := netlink.RouteGetWithOptions(a.AsSlice(), o)
	for _, refusal := range refusals {
		if errors.Is(err, refusal) {
			return netlink.Route{}, fmt.Errorf("%w to %s: %w", ErrNoRoute, a, err)
		}
	}
	if err == nil && len(routes) == 0 {
		err = ErrNoRoute
	}
	if err != nil {
		return netlink.Route{}, fmt.Errorf("asking for the route to %s: %w", a, err)
	}
	return routes[0], nil
}
