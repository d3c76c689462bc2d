package migration_test

import (
	"context"
	"math/big"
	"net/netip"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
)

// legacy is a bitmap of the old allocator: bit i is the address i+1 steps behind the range's start.
type legacy struct {
	object *corev1.RangeAllocation
	bits   *big.Int
}

func legacyOf(stored storage.Value) legacy {
	GinkgoHelper()
	object := storage.Decode[*corev1.RangeAllocation](stored)
	return legacy{object: object, bits: new(big.Int).SetBytes(object.Data)}
}

func (s etcd) legacy(ctx context.Context, key string) legacy {
	GinkgoHelper()
	return legacyOf(s.Get(ctx, key))
}

// plant writes a bitmap over the one that is there.
func (s etcd) plant(ctx context.Context, key string, l legacy) {
	GinkgoHelper()
	s.Put(ctx, key, l.encoded())
}

// encoded is the bitmap as an API server stores it.
func (l legacy) encoded() []byte {
	GinkgoHelper()
	l.object.Data = l.bits.Bytes()
	return storage.Encode(l.object)
}

// flip changes bits in the bitmap that covers the addresses, which are of one family.
func (s etcd) flip(ctx context.Context, addresses ...string) {
	GinkgoHelper()
	key := keyOf(addresses[0])
	bitmap := s.legacy(ctx, key)
	for _, address := range addresses {
		bitmap.set(address, !bitmap.has(address))
	}
	s.plant(ctx, key, bitmap)
}

func (l legacy) has(address string) bool { return l.bits.Bit(l.number(address)) == 1 }

func (l legacy) set(address string, used bool) {
	bit := uint(0)
	if used {
		bit = 1
	}
	l.bits.SetBit(l.bits, l.number(address), bit)
}

func (l legacy) number(address string) int {
	number := new(big.Int).Sub(numberOf(netip.MustParseAddr(address)), numberOf(l.base()))
	return int(number.Int64()) - 1
}

func (l legacy) base() netip.Addr { return netip.MustParsePrefix(l.object.Range).Addr() }

// addresses are all that the bitmap takes for used.
func (l legacy) addresses() []string {
	var all []string
	for i, address := 0, l.base().Next(); i < l.bits.BitLen(); i, address = i+1, address.Next() {
		if l.bits.Bit(i) == 1 {
			all = append(all, address.String())
		}
	}
	slices.Sort(all)
	return all
}

func numberOf(address netip.Addr) *big.Int { return new(big.Int).SetBytes(address.AsSlice()) }

// keyOf is where the bitmap of the address's family is: the fixture's clusters have IPv4 first.
func keyOf(address string) string {
	if netip.MustParseAddr(address).Is4() {
		return primaryKey
	}
	return secondaryKey
}
