package trace

import (
	"net/netip"
)

// remembered asks a World each question once: the answers of one Walk agree with each other, and a thousand endpoints cost no thousand
// questions about the same thing.
type remembered struct {
	World
	kinds  map[string]reply[string]
	has    map[[2]string]reply[bool]
	local  map[netip.Addr]reply[bool]
	routes map[routed]reply[string]
}

type reply[T any] struct {
	value T
	err   error
}

type routed struct {
	Packet
	mark uint32
}

func remember(w World) *remembered {
	return &remembered{
		World: w, kinds: map[string]reply[string]{}, has: map[[2]string]reply[bool]{},
		local: map[netip.Addr]reply[bool]{}, routes: map[routed]reply[string]{},
	}
}

// Kind implements World.
func (r *remembered) Kind(set string) (string, error) {
	return recall(r.kinds, set, func() (string, error) { return r.World.Kind(set) })
}

// Has implements World.
func (r *remembered) Has(set, entry string) (bool, error) {
	return recall(r.has, [2]string{set, entry}, func() (bool, error) { return r.World.Has(set, entry) })
}

// Local implements World.
func (r *remembered) Local(a netip.Addr) (bool, error) {
	return recall(r.local, a, func() (bool, error) { return r.World.Local(a) })
}

// Route implements World.
func (r *remembered) Route(p Packet, mark uint32) (string, error) {
	return recall(r.routes, routed{p, mark}, func() (string, error) { return r.World.Route(p, mark) })
}

func recall[K comparable, T any](known map[K]reply[T], key K, ask func() (T, error)) (T, error) {
	answer, ok := known[key]
	if !ok {
		answer.value, answer.err = ask()
		known[key] = answer
	}
	return answer.value, answer.err
}
