package sysctl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/utils/cpuset"
)

// key is a setting of the kernel: a path below /proc/sys, and the field of the configuration, with
// the value, that leaves the setting alone.
type key struct{ path, unset string }

// String implements fmt.Stringer.
func (k key) String() string { return k.path }

var (
	conntrackMax          = key{"net/netfilter/nf_conntrack_max", "conntrack.maxPerCore to 0"}
	conntrackBuckets      = key{"net/netfilter/nf_conntrack_buckets", "conntrack.maxPerCore to 0"}
	tcpEstablishedTimeout = key{"net/netfilter/nf_conntrack_tcp_timeout_established", "conntrack.tcpEstablishedTimeout to 0s"}
	tcpCloseWaitTimeout   = key{"net/netfilter/nf_conntrack_tcp_timeout_close_wait", "conntrack.tcpCloseWaitTimeout to 0s"}
	tcpBeLiberal          = key{"net/netfilter/nf_conntrack_tcp_be_liberal", "conntrack.tcpBeLiberal to false"}
	udpTimeout            = key{"net/netfilter/nf_conntrack_udp_timeout", "conntrack.udpTimeout to 0s"}
	udpStreamTimeout      = key{"net/netfilter/nf_conntrack_udp_timeout_stream", "conntrack.udpStreamTimeout to 0s"}
	routeLocalnet         = key{"net/ipv4/conf/all/route_localnet", "localhostNodePorts to false"}
	vsConntrack           = key{"net/ipv4/vs/conntrack", "mode to another one than ipvs"}
	vsExpireNodest        = key{"net/ipv4/vs/expire_nodest_conn", "mode to another one than ipvs"}
	vsExpireQuiescent     = key{"net/ipv4/vs/expire_quiescent_template", "mode to another one than ipvs"}
	ipForward             = key{"net/ipv4/ip_forward", "mode to another one than ipvs"}
	arpIgnore             = key{"net/ipv4/conf/all/arp_ignore", "ipvs.strictARP to false"}
	arpAnnounce           = key{"net/ipv4/conf/all/arp_announce", "ipvs.strictARP to false"}
)

const (
	entriesPerBucket  = 4
	mostScaledEntries = 1 << 20
)

// Want is what an admin chose. Its zero value leaves everything as it is.
type Want struct {
	// MaxPerCore is how many connections may be tracked per core, zero to leave the maximum alone; Min
	// is the least sum. The product is cut at 1,048,576 whatever Min says: entries cost memory, and
	// machines with hundreds of cores exist.
	MaxPerCore, Min int
	// The time-outs are in whole seconds, at least one; zero leaves them alone.
	TCPEstablished, TCPCloseWait, UDP, UDPStream time.Duration
	// BeLiberal lets packets outside of the TCP window pass as valid; false leaves that alone.
	BeLiberal bool
	// IPVS has IPVS keep its connections in connection tracking, without which they cannot be
	// masqueraded, end those to endpoints that are gone, and forget which client had an endpoint that
	// drains; it also has the node forward packets. StrictARP keeps an interface from answering for
	// addresses of another one. False leaves all that alone.
	IPVS, StrictARP bool
	// RouteLocalnet routes packets from 127.0.0.0/8, for node ports on localhost; false: no change.
	RouteLocalnet bool
}

// target is what one setting shall be. atLeast: a larger value is as good.
type target struct {
	key     key
	value   int
	atLeast bool
}

// targets returns the settings for a machine with so many cores, in the order in which to set them.
func targets(w Want, cores int) []target {
	n := connections(w, cores)
	return slices.DeleteFunc([]target{
		{key: conntrackMax, value: n, atLeast: true},
		{key: conntrackBuckets, value: n / entriesPerBucket, atLeast: true},
		{key: tcpEstablishedTimeout, value: seconds(w.TCPEstablished)},
		{key: tcpCloseWaitTimeout, value: seconds(w.TCPCloseWait)},
		{key: tcpBeLiberal, value: on(w.BeLiberal)},
		{key: udpTimeout, value: seconds(w.UDP)},
		{key: udpStreamTimeout, value: seconds(w.UDPStream)},
		{key: routeLocalnet, value: on(w.RouteLocalnet)},
		{key: vsConntrack, value: on(w.IPVS)},
		{key: vsExpireNodest, value: on(w.IPVS)},
		{key: vsExpireQuiescent, value: on(w.IPVS)},
		{key: ipForward, value: on(w.IPVS)},
		{key: arpIgnore, value: on(w.StrictARP), atLeast: true},
		{key: arpAnnounce, value: 2 * on(w.StrictARP), atLeast: true},
	}, func(t target) bool { return t.value == 0 })
}

// connections is the maximum of connections, zero to leave it alone.
func connections(w Want, cores int) int {
	scaled := w.MaxPerCore * cores
	switch {
	case w.MaxPerCore <= 0:
		return 0
	case scaled > mostScaledEntries:
		return mostScaledEntries
	default:
		return max(scaled, w.Min)
	}
}

func seconds(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	return max(int(d/time.Second), 1)
}

func on(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// cores returns how many cores of the machine are online, by a file of sysfs; if that is
// unreadable, how many the process may use, which may be fewer.
func cores(online string) int {
	text, err := os.ReadFile(online)
	if all, malformed := cpuset.Parse(strings.TrimSpace(string(text))); err == nil && malformed == nil && !all.IsEmpty() {
		return all.Size()
	}
	return runtime.NumCPU()
}

// Kernel is the folder of the kernel's settings, /proc/sys or one that stands for it.
type Kernel string

// Apply sets what differs from what is wanted. The error joins one for each setting that failed.
func (k Kernel) Apply(w Want) error {
	var errs []error
	for _, t := range targets(w, cores("/sys/devices/system/cpu/online")) {
		errs = append(errs, k.set(t))
	}
	return errors.Join(errs...)
}

// BeLiberal reports whether the kernel takes packets outside of the TCP window as valid, set by the
// agent or another program: then an agent drops no invalid packets. False without conntrack.
func (k Kernel) BeLiberal() (bool, error) {
	n, err := k.get(tcpBeLiberal)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return n != 0, err
}

func (k Kernel) get(key key) (int, error) {
	text, err := os.ReadFile(k.path(key))
	if err != nil {
		return 0, fmt.Errorf("reading the kernel setting %s: %w%s", key, err, remedy(key, err))
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("reading the kernel setting %s: %w", key, err)
	}
	return n, nil
}

// set writes a setting unless it is as it shall be. It creates no file: a folder that stands for
// the kernel's has a setting or has not, as the kernel's does.
func (k Kernel) set(t target) error {
	before, err := k.get(t.key)
	if err != nil || before == t.value || t.atLeast && before > t.value {
		return err
	}
	f, err := os.OpenFile(k.path(t.key), os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = f.WriteString(strconv.Itoa(t.value))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("setting %s from %d to %d: %w%s", t.key, before, t.value, err, remedy(t.key, err))
	}
	return nil
}

func (k Kernel) path(key key) string { return filepath.Join(string(k), filepath.FromSlash(key.path)) }

// remedy returns what an admin can do about an error, as the end of its message.
func remedy(key key, err error) string {
	leave := "or leave it alone by setting " + key.unset + " in the configuration"
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(key.path, "net/ipv4/vs/"):
		return " (the kernel module ip_vs is not loaded: load it on the host, " + leave + ")"
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(key.path, "net/netfilter/"):
		return " (the kernel module nf_conntrack is not loaded: load it on the host, " + leave + ")"
	case errors.Is(err, syscall.EROFS):
		return " (mount it writable or set it on the host, " + leave + ")"
	case errors.Is(err, fs.ErrPermission):
		return " (only root of the host's own network namespace may: set it there, " + leave + ")"
	default:
		return ""
	}
}
