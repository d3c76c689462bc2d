package sysctl

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Key is a setting of the kernel: a path below /proc/sys.
type Key string

// The settings that this package knows.
const (
	ConntrackMax          Key = "net/netfilter/nf_conntrack_max"
	ConntrackBuckets      Key = "net/netfilter/nf_conntrack_buckets"
	TCPEstablishedTimeout Key = "net/netfilter/nf_conntrack_tcp_timeout_established"
	TCPCloseWaitTimeout   Key = "net/netfilter/nf_conntrack_tcp_timeout_close_wait"
	TCPBeLiberal          Key = "net/netfilter/nf_conntrack_tcp_be_liberal"
	UDPTimeout            Key = "net/netfilter/nf_conntrack_udp_timeout"
	UDPStreamTimeout      Key = "net/netfilter/nf_conntrack_udp_timeout_stream"
	RouteLocalnet         Key = "net/ipv4/conf/all/route_localnet"
)

const (
	entriesPerBucket  = 4
	mostScaledEntries = 1 << 20
	leastTimeout      = time.Second
)

// Want is what an admin chose. Its zero value leaves everything as it is.
type Want struct {
	// MaxPerCore is how many connections may be tracked for each core, zero to leave the maximum alone; Min is the least of the sum. The
	// product is cut at 1,048,576 whatever Min says, for each entry costs memory and machines with hundreds of cores exist.
	MaxPerCore, Min int
	// The time-outs are in whole seconds, at least one; zero leaves them alone.
	TCPEstablished, TCPCloseWait, UDP, UDPStream time.Duration
	// BeLiberal lets packets outside of the TCP window pass as valid; false leaves that alone.
	BeLiberal bool
	// RouteLocalnet lets packets from 127.0.0.0/8 be routed, which node ports on localhost need; false leaves that alone.
	RouteLocalnet bool
}

// Target is what one setting shall be. AtLeast: a larger value is as good.
type Target struct {
	Key     Key
	Value   int
	AtLeast bool
}

// Write is one change of a setting.
type Write struct {
	Key           Key
	Before, After int
}

// Targets returns what the settings shall be on a machine with that many cores, in the order in which they are to be set.
func Targets(w Want, cores int) []Target {
	var ts []Target
	if n := connections(w, cores); n > 0 {
		ts = append(ts, Target{Key: ConntrackMax, Value: n}, Target{Key: ConntrackBuckets, Value: n / entriesPerBucket, AtLeast: true})
	}
	ts = appendTimeout(ts, TCPEstablishedTimeout, w.TCPEstablished)
	ts = appendTimeout(ts, TCPCloseWaitTimeout, w.TCPCloseWait)
	ts = appendSwitch(ts, TCPBeLiberal, w.BeLiberal)
	ts = appendTimeout(ts, UDPTimeout, w.UDP)
	ts = appendTimeout(ts, UDPStreamTimeout, w.UDPStream)
	return appendSwitch(ts, RouteLocalnet, w.RouteLocalnet)
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

func appendTimeout(ts []Target, k Key, d time.Duration) []Target {
	if d <= 0 {
		return ts
	}
	return append(ts, Target{Key: k, Value: int(max(d, leastTimeout) / time.Second)})
}

func appendSwitch(ts []Target, k Key, on bool) []Target {
	if !on {
		return ts
	}
	return append(ts, Target{Key: k, Value: 1})
}

// Decide returns what must be written where the settings are as in current, in the order of the targets. A setting that is not in
// current is not written.
func Decide(current map[Key]int, targets []Target) []Write {
	var ws []Write
	for _, t := range targets {
		now, known := current[t.Key]
		if known && !t.metBy(now) {
			ws = append(ws, Write{Key: t.Key, Before: now, After: t.Value})
		}
	}
	return ws
}

func (t Target) metBy(now int) bool { return now == t.Value || t.AtLeast && now > t.Value }

// Cores returns how many cores the machine has online, read below sysfs, which is /sys when empty. Where that cannot be read it is
// how many the process may use, which may be fewer than the machine has.
func Cores(sysfs string) int {
	if sysfs == "" {
		sysfs = "/sys"
	}
	text, err := os.ReadFile(filepath.Join(sysfs, "devices/system/cpu/online"))
	if err != nil {
		return runtime.NumCPU()
	}
	if n := countCores(strings.TrimSpace(string(text))); n > 0 {
		return n
	}
	return runtime.NumCPU()
}

// countCores counts the numbers in a list of ranges like 0-3,8; zero for anything else.
func countCores(list string) (n int) {
	for r := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(r, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 31)
		to, err2 := strconv.ParseUint(last, 10, 31)
		if err1 != nil || err2 != nil || to < from {
			return 0
		}
		n += int(to-from) + 1
	}
	return n
}
