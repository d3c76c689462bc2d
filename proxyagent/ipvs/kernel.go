//go:build linux

package ipvs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/cloudflare/ipvs"
	"github.com/cloudflare/ipvs/netmask"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// device is the name of our dummy interface, kubeDevice that of kube-proxy.
const (
	device     = "clusterip-ipvs0"
	kubeDevice = "kube-ipvs0"
)

// kernel are IPVS and our interface, of one family. Its methods may be called concurrently.
type kernel struct {
	family model.Family
	ipvs.Client
	link netlink.Link
}

// openIPVS reaches IPVS. The kernel loads its module for that, if it may.
func openIPVS() (ipvs.Client, error) {
	c, err := ipvs.New()
	if errors.Is(err, os.ErrNotExist) {
		return nil, errors.New("the kernel has no IPVS: load its modules on the host with `modprobe -a ip_vs ip_vs_rr nf_conntrack` " +
			"(Debian has them in its kernel package, Ubuntu in linux-modules-extra, Fedora and RHEL in kernel-modules), or choose another mode")
	}
	if err != nil {
		return nil, fmt.Errorf("reaching IPVS: %w", err)
	}
	return c, nil
}

func open(f model.Family) (*kernel, error) {
	c, err := openIPVS()
	if err != nil {
		return nil, err
	}
	k := &kernel{family: f, Client: c}
	return k, k.ensureLink()
}

// ensureLink makes our interface if missing, and wakes it, without the address that IPv6 would add.
func (k *kernel) ensureLink() error {
	link, err := netlink.LinkByName(device)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		err = netlink.LinkAdd(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: device}})
		if err == nil || errors.Is(err, syscall.EEXIST) { // the other family
			link, err = netlink.LinkByName(device)
		}
	}
	if err == nil && link.Attrs().Flags&net.FlagUp == 0 {
		if err := netlink.LinkSetIP6AddrGenMode(link, nl6None); err != nil && !errors.Is(err, syscall.EAFNOSUPPORT) && !errors.Is(err, syscall.EOPNOTSUPP) {
			return fmt.Errorf("keeping the interface %s without link-local addresses: %w", device, err)
		}
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("making the interface %s (it takes NET_ADMIN and the module dummy: modprobe dummy): %w", device, err)
	}
	k.link = link
	return nil
}

const nl6None = 1 // IN6_ADDR_GEN_MODE_NONE of linux/if_link.h

// bind gives an address to our interface, with the scope host or, for IPv6, deprecated: the kernel
// must not choose it as the source of packets to elsewhere.
func (k *kernel) bind(a netip.Addr) error {
	return ignore(netlink.AddrReplace(k.link, k.addr(a)), syscall.EEXIST)
}

// awaitLocal waits until packets to bound addresses stay on the node. For IPv6 the kernel answers
// before a queue has made the route; until then, the rules refuse new connections.
func awaitLocal(addrs []netip.Addr) error {
	start := time.Now()
	for _, a := range addrs {
		for ; a.Is6() && !isLocal(a); time.Sleep(time.Millisecond) {
			if time.Since(start) > localTimeout {
				return fmt.Errorf("the address %s of the interface %s is not local after %s: see `ip -6 route get`", a, device, localTimeout)
			}
		}
	}
	return nil
}

// localTimeout is for what takes five milliseconds on a busy machine.
const localTimeout = 10 * time.Second

func isLocal(a netip.Addr) bool {
	routes, err := netlink.RouteGet(a.AsSlice()) // it fails where nothing leads to the address
	return err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL
}

func (k *kernel) unbind(a netip.Addr) error {
	return ignore(netlink.AddrDel(k.link, k.addr(a)), syscall.EADDRNOTAVAIL)
}

func (k *kernel) addr(a netip.Addr) *netlink.Addr {
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}, Scope: unix.RT_SCOPE_HOST}
	if a.Is6() {
		addr.Scope, addr.Flags, addr.ValidLft = unix.RT_SCOPE_UNIVERSE, unix.IFA_F_NODAD|unix.IFA_F_NOPREFIXROUTE, forever
	}
	return addr
}

const forever = 0xffffffff

// addresses are the virtual IPs of our and kube-proxy's interface, and the node's other addresses.
func (k *kernel) addresses() (all observed, err error) {
	addrs, err := listAddrs(nil, int(k.family.Number()))
	if err != nil {
		return all, err
	}
	other, err := findLink(k.other())
	if err != nil {
		return all, err
	}
	all.bound, all.others = map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for _, one := range addrs {
		a, _ := netip.AddrFromSlice(one.IP)
		switch a = a.Unmap(); {
		case one.LinkIndex == k.link.Attrs().Index:
			all.bound[a] = true
		case other != nil && one.LinkIndex == other.Attrs().Index:
			all.others[a] = true
		case !a.IsLoopback():
			all.own = append(all.own, a)
		}
	}
	slices.SortFunc(all.own, netip.Addr.Compare)
	all.own = slices.Compact(all.own)
	return all, nil
}

// other is the name of kube-proxy's interface, or ours when this one is kube-proxy's.
func (k *kernel) other() string {
	if k.link.Attrs().Name == kubeDevice {
		return device
	}
	return kubeDevice
}

// listAddrs lists addresses, again if some change meanwhile.
func listAddrs(of netlink.Link, family int) (all []netlink.Addr, err error) {
	for range 10 {
		if all, err = netlink.AddrList(of, family); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the addresses of the node: %w", err)
	}
	return all, nil
}

func (k *kernel) do(s step) (err error) {
	switch s.action {
	case addServer:
		err = k.CreateService(k.service(s.front, s.balancing))
	case setServer:
		err = k.UpdateService(k.service(s.front, s.balancing))
	case removeServer:
		err = ignore(k.RemoveService(k.service(s.front, s.balancing)), syscall.ESRCH)
	case addEndpoint:
		err = k.CreateDestination(k.service(s.front, s.balancing), k.destination(s))
	case setWeight:
		err = k.UpdateDestination(k.service(s.front, s.balancing), k.destination(s))
	case removeEndpoint:
		err = ignore(k.RemoveDestination(k.service(s.front, s.balancing), k.destination(s)), syscall.ENOENT)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s, model.Refused(err))
	}
	return nil
}

// String names the step, to come before what went wrong.
func (s step) String() string {
	what := map[action]string{
		addServer: "adding", setServer: "changing", removeServer: "removing", addEndpoint: "adding %s to", setWeight: "setting the weight of %s in", removeEndpoint: "removing %s from",
	}[s.action]
	if s.endpoint.IsValid() {
		what = fmt.Sprintf(what, s.endpoint)
	}
	return what + " the virtual server " + s.front.String()
}

// fallback has sh and mh pass over a client's endpoint that drains; without, the client is refused.
const fallback = ipvs.ServiceSchedulerOpt1

func (k *kernel) service(f front, b balancing) ipvs.Service {
	s := ipvs.Service{
		Address: f.at.Addr(), Port: f.at.Port(), Protocol: ipvs.Protocol(f.protocol), Family: k.inet(), Scheduler: string(b.scheduler), Timeout: uint32(b.seconds),
		Netmask: netmask.MaskFrom(k.family.Bits(), k.family.Bits()),
	}
	if b.seconds > 0 {
		s.Flags |= ipvs.ServicePersistent
	}
	if b.scheduler.Hashes() {
		s.Flags |= fallback
	}
	return s
}

func (k *kernel) destination(s step) ipvs.Destination {
	return ipvs.Destination{Address: s.endpoint.Addr(), Port: s.endpoint.Port(), Family: k.inet(), FwdMethod: ipvs.Masquerade, Weight: uint32(s.weight)}
}

func (k *kernel) inet() ipvs.AddressFamily { return ipvs.AddressFamily(k.family.Number()) }

// services are the virtual servers of the family, with what the kernel counts.
func (k *kernel) services() (map[front]ipvs.ServiceExtended, error) {
	all, err := k.Services()
	if ignore(err, os.ErrNotExist) != nil { // that is what the library says when there is none
		return nil, fmt.Errorf("reading virtual servers: %w", err)
	}
	found := make(map[front]ipvs.ServiceExtended, len(all))
	for _, s := range all {
		if s.Family == k.inet() && s.FWMark == 0 {
			found[front{model.Protocol(s.Protocol), netip.AddrPortFrom(s.Address, s.Port)}] = s
		}
	}
	return found, nil
}

// agreements is how many dumps there are until two agree.
const agreements = 8

// servers are the family's virtual servers, without destinations. Two dumps in a row must agree:
// while the other family takes one away, a dump may leave out one that stays, and does not say so.
func (k *kernel) servers() (map[front]*server, error) {
	var before map[front]ipvs.ServiceExtended
	for range agreements {
		now, err := k.services()
		if err != nil {
			return nil, err
		}
		if before != nil && maps.EqualFunc(before, now, func(_, _ ipvs.ServiceExtended) bool { return true }) {
			return serversOf(now), nil
		}
		before = now
	}
	return nil, errors.New("reading virtual servers: every dump is different")
}

func serversOf(all map[front]ipvs.ServiceExtended) map[front]*server {
	found := make(map[front]*server, len(all))
	for f, s := range all {
		b := balancing{scheduler: model.Scheduler(s.Scheduler)}
		if s.Flags&ipvs.ServicePersistent != 0 {
			b.seconds = int(s.Timeout)
		}
		if b.scheduler.Hashes() && s.Flags&fallback == 0 {
			b.scheduler = "" // none that a Service wants
		}
		found[f] = &server{balancing: b}
	}
	return found
}

func (k *kernel) destinations(f front) ([]ipvs.DestinationExtended, error) {
	all, err := k.Destinations(k.service(f, balancing{}))
	if ignore(err, os.ErrNotExist) != nil {
		return nil, fmt.Errorf("reading the destinations of the virtual server %s: %w", f, err)
	}
	return all, nil
}

// weights are those of a virtual server's destinations, -1 (unwanted) where not by masquerading.
func (k *kernel) weights(f front) (map[netip.AddrPort]int, error) {
	all, err := k.destinations(f)
	weights := make(map[netip.AddrPort]int, len(all))
	for _, d := range all {
		weights[netip.AddrPortFrom(d.Address, d.Port)] = int(d.Weight)
		if d.FwdMethod != ipvs.Masquerade {
			weights[netip.AddrPortFrom(d.Address, d.Port)] = -1
		}
	}
	return weights, err
}

type observed struct {
	servers map[front]*server   // with destinations if they are ours
	bound   map[netip.Addr]bool // virtual IPs
	others  map[netip.Addr]bool // those of the other proxy that serves with IPVS
	own     []netip.Addr
}

// read reads all that is ours, or wanted.
func (k *kernel) read(ctx context.Context, ours func(observed, front) bool) (all observed, err error) {
	if all, err = k.addresses(); err != nil {
		return all, err
	}
	if all.servers, err = k.servers(); err != nil {
		return all, err
	}
	for f, s := range all.servers {
		if !ours(all, f) {
			continue
		}
		if s.weights, err = k.weights(f); err != nil || ctx.Err() != nil {
			return all, errors.Join(err, ctx.Err())
		}
	}
	return all, nil
}

func ignore(err, which error) error {
	if errors.Is(err, which) {
		return nil
	}
	return err
}
