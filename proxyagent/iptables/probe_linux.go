package iptables

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// probe reports in microseconds, without running a program, whether the rules may have changed: two equal fingerprints mean that they did
// not, except for changes of legacy tables that keep number and size of the entries. It cannot tell while a write of ours runs.
type probe func() (f fingerprint, known bool, err error)

// fingerprint is comparable. foreign counts the transactions of others with iptables-nft and is zero with iptables-legacy.
type fingerprint struct {
	foreign uint32
	sizes   [2]tableSize
}

type tableSize struct{ entries, bytes uint32 }

func newProbe(m Mode, f model.Family, s *Generations) probe {
	if m == NFT {
		return s.foreign
	}
	return func() (fingerprint, bool, error) {
		now, err := sizes(f)
		return now, true, err
	}
}

// getInfo is struct ipt_getinfo of the kernel's interface for legacy tables, the same for IPv6.
type getInfo struct {
	name       [32]byte
	hooks      uint32
	hookEntry  [5]uint32
	underflow  [5]uint32
	numEntries uint32
	size       uint32
}

// soGetInfo is IPT_SO_GET_INFO and IP6T_SO_GET_INFO.
const soGetInfo = 64

// sizes returns number and size of the entries of our two tables.
func sizes(f model.Family) (fingerprint, error) {
	domain, level := unix.AF_INET, unix.IPPROTO_IP
	if f == model.IPv6 {
		domain, level = unix.AF_INET6, unix.IPPROTO_IPV6
	}
	s, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return fingerprint{}, fmt.Errorf("opening a raw socket: %w", err)
	}
	defer func() { _ = unix.Close(s) }()
	var result fingerprint
	for i, t := range tables {
		info := getInfo{}
		copy(info.name[:], t)
		length := uint32(unsafe.Sizeof(info))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s), uintptr(level), soGetInfo,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&length)), 0)
		if errno != 0 {
			return fingerprint{}, fmt.Errorf("asking for the size of the table %s: %w", t, errno)
		}
		result.sizes[i] = tableSize{info.numEntries, info.size}
	}
	return result, nil
}

// turnTimeout is how long a write waits for that of another family. iptables-nft starts over when a transaction comes between, which both are spared;
// but a program that is stuck must not stop the other family, which waits for it once.
const turnTimeout = 5 * time.Second

// Generations counts our own transactions of nf_tables, to tell them from those of other programs. The kernel counts all transactions of a
// network namespace, of both families, so the Proxiers of a node share one. Make it with [NewGenerations].
type Generations struct {
	turn    chan struct{} // has an element while a write runs that got its turn in time
	timeout time.Duration
	stuck   atomic.Bool // the write that has the turn has had it for longer than timeout

	mu      sync.Mutex
	own     uint32
	writing int // writes that run
}

// NewGenerations returns one that has counted nothing.
func NewGenerations() *Generations {
	return &Generations{turn: make(chan struct{}, 1), timeout: turnTimeout}
}

// foreign returns how many transactions others have made, from an arbitrary beginning.
func (g *Generations) foreign() (fingerprint, bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.writing > 0 {
		return fingerprint{}, false, nil
	}
	now, err := nfnetlink.Generation()
	return fingerprint{foreign: now - g.own}, true, err
}

// write runs a write of ours that takes a number of transactions if it succeeds. A failed one counts as foreign, because it is not known how
// many transactions it made.
func (g *Generations) write(transactions int, write func() error) error {
	wait := g.timeout
	if g.stuck.Load() {
		wait = 0
	}
	select {
	case g.turn <- struct{}{}:
		defer func() { g.stuck.Store(false); <-g.turn }()
	case <-time.After(wait):
		g.stuck.Store(true)
	}
	g.count(1, 0)
	err := write()
	if err != nil {
		transactions = 0
	}
	g.count(-1, transactions)
	return err
}

func (g *Generations) count(writing, own int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writing += writing
	g.own += uint32(own)
}
