//go:build linux

package ipvs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/cloudflare/ipvs"
	"github.com/vishvananda/netlink"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Usable returns why IPVS cannot serve with a scheduler; nil when it can. It leaves nothing behind.
func Usable(scheduler model.Scheduler, sysctlRoot string) error {
	c, err := openIPVS()
	if err != nil {
		return err
	}
	k := &kernel{family: model.IPv4, Client: c}
	if _, err := os.Stat(filepath.Join(sysctlRoot, "net/ipv4/vs/conntrack")); err != nil {
		return fmt.Errorf("IPVS of this kernel does not know connection tracking, which masquerading takes (CONFIG_IP_VS_NFCT): %w", err)
	}
	if slices.Contains(unloaded(), scheduler) {
		return fmt.Errorf("the module of the scheduler %[1]s of IPVS is not loaded, and a kernel that loads it itself may lock up: load it on the host with `modprobe ip_vs_%[1]s`, or set ipvs.scheduler to another one", scheduler)
	}
	trial := step{action: addServer, front: front{model.TCP, netip.AddrPortFrom(netip.IPv4Unspecified(), 0)}, balancing: balancing{scheduler: scheduler, seconds: 1}}
	err = k.do(trial)
	switch {
	case errors.Is(err, syscall.EEXIST):
		return nil
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("the kernel does not have the scheduler %[1]s of IPVS: load its module on the host with `modprobe ip_vs_%[1]s`, or set ipvs.scheduler to another one", scheduler)
	case err != nil:
		return fmt.Errorf("writing a virtual server on trial (it takes NET_ADMIN): %w", err)
	}
	trial.action = removeServer
	return k.do(trial)
}

// NodeAddrs are the node's addresses of both families, without virtual IPs of ours or kube-proxy's.
func NodeAddrs() ([]netip.Addr, error) {
	var dummies []int
	for _, name := range []string{device, kubeDevice} {
		if link, err := findLink(name); err != nil {
			return nil, err
		} else if link != nil {
			dummies = append(dummies, link.Attrs().Index)
		}
	}
	all, err := listAddrs(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, one := range all {
		if a, ok := netip.AddrFromSlice(one.IP); ok && !slices.Contains(dummies, one.LinkIndex) {
			addrs = append(addrs, a.Unmap())
		}
	}
	return addrs, nil
}

func findLink(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the interface %s: %w", name, err)
	}
	return link, nil
}

// CleanupOptions say what to take away.
type CleanupOptions struct {
	Family model.Family
	// KubeProxy takes away what kube-proxy left at its interface and at NodePorts, and not ours.
	KubeProxy bool
	// NodePorts are those that kube-proxy serves.
	NodePorts map[model.Protocol]map[uint16]bool
	DryRun    bool
}

// Cleanup takes away virtual servers, virtual IPs, and the interface with the last of them, and
// returns what it did in words. What has an address of the other proxy too stays: one took it over.
// It stops where the interface is missing, because looking further would load the modules of IPVS.
func Cleanup(ctx context.Context, o CleanupOptions) ([]string, error) {
	name, ours := device, func(t observed, f front) bool { return t.ours(f, nil) && !t.others[f.at.Addr()] }
	if o.KubeProxy {
		name, ours = kubeDevice, func(t observed, f front) bool { return t.ofKubeProxy(f, o.NodePorts) }
	}
	link, err := findLink(name)
	if err != nil || link == nil {
		return nil, err
	}
	c, err := openIPVS()
	if err != nil {
		return nil, err
	}
	defer closeClient(c)
	k := &kernel{family: o.Family, Client: c, link: link}
	have, err := k.read(ctx, ours)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(have.servers, func(_ front, s *server) bool { return s.weights == nil })
	return k.clean(have, o.DryRun)
}

// ofKubeProxy reports whether a virtual server is kube-proxy's, to which the bound addresses
// belong. A marked node port is ours by now.
func (t observed) ofKubeProxy(f front, nodePorts map[model.Protocol]map[uint16]bool) bool {
	a := f.at.Addr()
	return t.bound[a] && !t.others[a] || nodePorts[f.protocol][f.at.Port()] && slices.Contains(t.own, a) && t.servers[f.mark()] == nil
}

// closeClient closes a client: the interface of the library does not say that it can be.
func closeClient(c ipvs.Client) {
	if c, ok := c.(io.Closer); ok {
		_ = c.Close()
	}
}

func (k *kernel) clean(have observed, dryRun bool) (did []string, err error) {
	name := k.link.Attrs().Name
	if len(have.servers) > 0 {
		did = append(did, fmt.Sprintf("%s IPVS: %d virtual servers", k.family, len(have.servers)))
	}
	if len(have.bound) > 0 {
		did = append(did, fmt.Sprintf("%s IPVS: %d addresses of the interface %s", k.family, len(have.bound), name))
	}
	left, problem := listAddrs(k.link, netlink.FAMILY_ALL)
	last := problem == nil && len(left) == len(have.bound)
	if last {
		did = append(did, "the interface "+name)
	}
	if dryRun {
		return did, problem
	}
	err = k.leave(have)
	if last && err == nil {
		err = ignore(netlink.LinkDel(k.link), syscall.ENODEV)
	}
	return did, errors.Join(err, problem)
}

// leave takes virtual servers away before what tells whose they are: marks of node ports, and
// addresses. After a failure, or a kill, the next run finds the rest. Rules still keep clients from
// the node's own sockets meanwhile, or translate what goes to the addresses.
func (k *kernel) leave(have observed) (err error) {
	for _, marks := range []bool{false, true} {
		for f := range have.servers {
			if f.isMark() == marks {
				err = errors.Join(err, k.do(step{action: removeServer, front: f}))
			}
		}
		if err != nil {
			return err
		}
	}
	for a := range have.bound {
		err = errors.Join(err, k.unbind(a))
	}
	return err
}
