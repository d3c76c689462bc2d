//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// bridge is the interface of the first node that the others are connected to. Their own is called eth0.
const bridge = "br0"

// worldAddresses are the default gateway's.
var worldAddresses = [2]netip.Addr{netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("fd77::1")}

// nodeAddresses are those of the i-th node, from 1, IPv4 first. The networks are a /24 and a /64.
func nodeAddresses(i int) [2]netip.Addr {
	return [2]netip.Addr{netip.MustParseAddr(fmt.Sprintf("10.77.0.%d", 10+i)), netip.MustParseAddr(fmt.Sprintf("fd77::%x", 0x10+i))}
}

// podRanges are what the pods of the i-th node have their addresses from.
func podRanges(i int) [2]netip.Prefix {
	return [2]netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", i)), netip.MustParsePrefix(fmt.Sprintf("fd00:10:244:%x::/64", i))}
}

// netns is an open network namespace. It ends when it is closed and nobody is in it.
type netns struct{ *os.File }

// newNetns makes a network namespace, on a thread that ends with it.
func newNetns() (netns, error) {
	type result struct {
		netns
		err error
	}
	made := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		var r result
		if r.err = unix.Unshare(unix.CLONE_NEWNET); r.err == nil {
			r.File, r.err = os.Open("/proc/thread-self/ns/net")
		}
		made <- r
	}()
	r := <-made
	if r.err != nil {
		return netns{}, fmt.Errorf("making a network namespace: %w", r.err)
	}
	return r.netns, nil
}

// path is how other processes open the namespace, as long as this one has it.
func (n netns) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.Fd()) }

// ip runs lines of "ip -batch" in the namespace; the zero netns is that of this process.
func (n netns) ip(ctx context.Context, lines ...string) error {
	args := []string{"ip", "-batch", "-"}
	if n.File != nil {
		args = append([]string{"nsenter", "--net=" + n.path()}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("setting up a network: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// sysctl writes sysctls in the namespace. Those that the kernel does not have are left out.
func (n netns) sysctl(ctx context.Context, values ...string) error {
	args := append([]string{"sysctl", "-q", "-e", "-w"}, values...)
	if n.File != nil {
		args = append([]string{"nsenter", "--net=" + n.path()}, args...)
	}
	if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("writing sysctls: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// sysctls let a node forward, and use its addresses at once.
var sysctls = []string{
	"net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.default.disable_ipv6=0",
	"net.ipv6.conf.all.accept_dad=0", "net.ipv6.conf.default.accept_dad=0", "net.ipv6.conf.default.accept_ra=0",
	"net.bridge.bridge-nf-call-iptables=0", "net.bridge.bridge-nf-call-ip6tables=0",
}

// connect makes the network of so many nodes, and returns the namespaces of all but the first, and the world's.
func connect(ctx context.Context, nodes int) (others []netns, world netns, err error) {
	interfaces, err := net.Interfaces()
	if err == nil {
		err = mayUse(interfaces)
	}
	if err != nil {
		return nil, world, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, disconnect(append(others, world)))
			others, world = nil, netns{}
		}
	}()
	first := netns{}
	if err := errors.Join(
		first.sysctl(ctx, sysctls...),
		first.ip(ctx, append([]string{"link set lo up", "link add " + bridge + " type bridge", "link set " + bridge + " up"}, nodeLines(1, bridge, nodes)...)...),
	); err != nil {
		return nil, world, err
	}
	for i := 2; i <= nodes; i++ {
		n, err := attachNode(ctx, i, nodes)
		if err != nil {
			return others, world, err
		}
		others = append(others, n)
	}
	if world, err = newNetns(); err != nil {
		return others, world, err
	}
	lines := []string{"link set lo up", "link set eth0 up"}
	for family, a := range worldAddresses {
		lines = append(lines, addressLine(a, "eth0"))
		for i := 1; i <= nodes; i++ {
			lines = append(lines, fmt.Sprintf("route add %s via %s", podRanges(i)[family], nodeAddresses(i)[family]))
		}
	}
	return others, world, world.attach(ctx, "world", lines)
}

// mayUse refuses a network namespace with these interfaces if somebody uses it, who may be the machine.
func mayUse(interfaces []net.Interface) error {
	for _, i := range interfaces {
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 {
			return fmt.Errorf("the interface %s is up: a cluster needs a network namespace of its own, see network.Isolate and network.Enter", i.Name)
		}
	}
	return nil
}

// attachNode makes the network of the i-th of so many nodes, which is not the first.
func attachNode(ctx context.Context, i, nodes int) (netns, error) {
	n, err := newNetns()
	if err != nil {
		return netns{}, err
	}
	port := fmt.Sprintf("node%d", i)
	if _, before := net.InterfaceByName(port); before == nil { // that of a node whose processes are not all gone yet
		err = netns{}.ip(ctx, "link delete "+port)
	}
	if err := errors.Join(err, n.attach(ctx, port, nodeLines(i, "eth0", nodes))); err != nil {
		return netns{}, errors.Join(err, n.Close())
	}
	return n, nil
}

// attach connects the eth0 of a namespace to a port of the bridge, and runs lines there.
func (n netns) attach(ctx context.Context, port string, lines []string) error {
	return errors.Join(
		n.sysctl(ctx, sysctls...),
		netns{}.ip(ctx, fmt.Sprintf("link add %s type veth peer name eth0 netns %s", port, n.path()), fmt.Sprintf("link set %s master %s up", port, bridge)),
		n.ip(ctx, lines...),
	)
}

// nodeLines give the i-th node its addresses, and the ways to the pods of the others.
func nodeLines(i int, device string, nodes int) []string {
	lines := []string{"link set lo up", "link set " + device + " up"}
	for family, a := range nodeAddresses(i) {
		lines = append(lines, addressLine(a, device), fmt.Sprintf("route add default via %s", worldAddresses[family]))
		for other := 1; other <= nodes; other++ {
			if other != i {
				lines = append(lines, fmt.Sprintf("route add %s via %s", podRanges(other)[family], nodeAddresses(other)[family]))
			}
		}
	}
	return lines
}

func addressLine(a netip.Addr, device string) string {
	if a.Is4() {
		return fmt.Sprintf("addr add %s/24 dev %s", a, device)
	}
	return fmt.Sprintf("addr add %s/64 dev %s nodad", a, device)
}

// disconnect takes the networks down.
func disconnect(all []netns) error {
	var errs []error
	for _, n := range all {
		if n.File != nil {
			errs = append(errs, n.Close())
		}
	}
	if _, err := net.InterfaceByName(bridge); err == nil {
		errs = append(errs, netns{}.ip(context.Background(), "link delete "+bridge))
	}
	return errors.Join(errs...)
}
