//go:build linux

package ipvs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"

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

// NodeAddrs are the addresses of the node, of both families, but the virtual IPs that our interface has.
func NodeAddrs() ([]netip.Addr, error) {
	link, err := findLink()
	if err != nil {
		return nil, err
	}
	all, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("reading the addresses of the node: %w", err)
	}
	var addrs []netip.Addr
	for _, one := range all {
		if a, ok := netip.AddrFromSlice(one.IP); ok && (link == nil || one.LinkIndex != link.Attrs().Index) {
			addrs = append(addrs, a.Unmap())
		}
	}
	return addrs, nil
}

// findLink returns our interface, nil if there is none.
func findLink() (netlink.Link, error) {
	link, err := netlink.LinkByName(device)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the interface %s: %w", device, err)
	}
	return link, nil
}

// Cleanup takes away the virtual servers and virtual IPs of a family, and our interface with the last of them. It returns what it did in words. Where our interface is missing it does not even look: that would
// load the modules of IPVS.
func Cleanup(ctx context.Context, f model.Family, dryRun bool) ([]string, error) {
	link, err := findLink()
	if err != nil || link == nil {
		return nil, err
	}
	c, err := openIPVS()
	if err != nil {
		return nil, err
	}
	defer close(c)
	k := &kernel{family: f, Client: c, link: link}
	have, err := k.read(ctx, func(t there, f front) bool { return t.ours(f, nil) })
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(have.servers, func(_ front, s *server) bool { return s.weights == nil })
	return k.clean(have, dryRun)
}

// close closes a client: the interface of the library does not say that it can be.
func close(c any) {
	if c, ok := c.(interface{ Close() error }); ok {
		_ = c.Close()
	}
}

func (k *kernel) clean(have there, dryRun bool) (did []string, err error) {
	if len(have.servers) > 0 {
		did = append(did, fmt.Sprintf("%s IPVS: %d virtual servers", k.family, len(have.servers)))
	}
	if len(have.bound) > 0 {
		did = append(did, fmt.Sprintf("%s IPVS: %d addresses of the interface %s", k.family, len(have.bound), device))
	}
	left, problem := netlink.AddrList(k.link, netlink.FAMILY_ALL)
	last := problem == nil && len(left) == len(have.bound)
	if last {
		did = append(did, "the interface "+device)
	}
	if dryRun {
		return did, problem
	}
	for a := range have.bound {
		err = errors.Join(err, k.unbind(a))
	}
	for f := range have.servers {
		err = errors.Join(err, k.do(step{action: removeServer, front: f}))
	}
	if last && err == nil {
		err = ignoreMissing(netlink.LinkDel(k.link))
	}
	return did, errors.Join(err, problem)
}

func ignoreMissing(err error) error {
	if errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}
