package iptables

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables/rules"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// probe reports in microseconds, without running a program, whether the rules may have changed. Two
// equal fingerprints mean that they did not, except for changes of legacy tables that keep number
// and size of the entries. It cannot tell while a write of ours runs.
type probe func() (f fingerprint, known bool, err error)

// fingerprint is comparable. foreign counts transactions of other programs with iptables-nft and is
// zero with iptables-legacy.
type fingerprint struct {
	foreign uint32
	sizes   [2]tableSize
}

type tableSize struct{ entries, bytes uint32 }

func newProbe(m Mode, f model.Family, s *nfnetlink.Generations) probe {
	if m == NFT {
		return func() (fingerprint, bool, error) {
			now, known, err := s.Foreign()
			return fingerprint{foreign: now}, known, err
		}
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
	for i, t := range rules.Tables {
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
