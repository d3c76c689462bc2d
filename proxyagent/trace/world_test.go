package trace

import (
	"fmt"
	"net/netip"
	"slices"
)

// fakeWorld is a node with two pods, as a World. Its zero value knows no sets.
type fakeWorld struct {
	kinds   map[string]string
	entries map[string][]string
	asked   int
}

// The node of the tests: itself at 192.168.0.1, pods in 10.244.1.0/24 behind cni0, all else behind eth0 but for 203.0.113.0/24,
// which nothing leads to.
var (
	nodeAddrs = []string{"192.168.0.1", "127.0.0.1", "fd00:1::1", "::1"}
	podCIDR   = netip.MustParsePrefix("10.244.1.0/24")
	nowhere   = netip.MustParsePrefix("203.0.113.0/24")
)

func (w *fakeWorld) set(name, kind string, entries ...string) *fakeWorld {
	if w.kinds == nil {
		w.kinds, w.entries = map[string]string{}, map[string][]string{}
	}
	w.kinds[name], w.entries[name] = kind, entries
	return w
}

func (w *fakeWorld) Kind(set string) (string, error) {
	if w.kinds[set] == "" {
		return "", fmt.Errorf("the set is gone")
	}
	return w.kinds[set], nil
}

func (w *fakeWorld) Has(set, entry string) (bool, error) {
	w.asked++
	return slices.Contains(w.entries[set], entry), nil
}

func (w *fakeWorld) Local(a netip.Addr) (bool, error) {
	return slices.Contains(nodeAddrs, a.String()), nil
}

func (w *fakeWorld) Route(p Packet, _ uint32) (string, error) {
	switch to := p.Dst.Addr(); {
	case podCIDR.Contains(to):
		return "cni0", nil
	case nowhere.Contains(to):
		return "", fmt.Errorf("%w to %s", ErrNoRoute, to)
	default:
		return "eth0", nil
	}
}
