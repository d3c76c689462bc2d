package allocator

import (
	"math"
	"math/big"
	"testing"
)

// numbers has what is special about 128 bits in two halves: the ends, and where the halves meet.
func numbers() (list []uint128) {
	halves := []uint64{0, 1, 63, 64, 1 << 32, math.MaxInt64, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}
	for _, hi := range halves {
		for _, lo := range halves {
			list = append(list, uint128{hi, lo})
		}
	}
	rng := seeded(5)
	for range 40 {
		list = append(list, uint128{rng.Uint64(), rng.Uint64()})
	}
	return list
}

func (u uint128) big() *big.Int {
	hi := new(big.Int).Lsh(new(big.Int).SetUint64(u.hi), 64)
	return hi.Add(hi, new(big.Int).SetUint64(u.lo))
}

// wrapped returns n modulo 2^128 as a number of this package.
func wrapped(n *big.Int) uint128 {
	n = new(big.Int).Mod(n, new(big.Int).Lsh(big.NewInt(1), 128))
	return uint128{new(big.Int).Rsh(n, 64).Uint64(), new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64)).Uint64()}
}

func TestArithmetic(t *testing.T) {
	for _, u := range numbers() {
		for _, v := range numbers() {
			lo := new(big.Int).SetUint64(v.lo)
			for name, tc := range map[string]struct {
				got  uint128
				want *big.Int
			}{
				"add":   {u.add(v), new(big.Int).Add(u.big(), v.big())},
				"sub":   {u.sub(v), new(big.Int).Sub(u.big(), v.big())},
				"plus":  {u.plus(v.lo), new(big.Int).Add(u.big(), lo)},
				"minus": {u.minus(v.lo), new(big.Int).Sub(u.big(), lo)},
				"or":    {u.or(v), new(big.Int).Or(u.big(), v.big())},
			} {
				if tc.got != wrapped(tc.want) {
					t.Fatalf("%s of %s and %s is %s", name, u, v, tc.got)
				}
			}
			if want := u.big().Cmp(v.big()); u.compare(v) != want || u.less(v) != (want < 0) {
				t.Fatalf("%s and %s compare as %d, less %v, want %d", u, v, u.compare(v), u.less(v), want)
			}
		}
		key, bit := u.word()
		if want := new(big.Int).Rsh(u.big(), 6); key != wrapped(want) || key.base().plus(uint64(bit)) != u {
			t.Fatalf("%s is bit %d of word %s", u, bit, key)
		}
		if fits := u.big().IsUint64(); fits && u.saturated() != u.lo || !fits && u.saturated() != math.MaxUint64 || u.isZero() != (u.big().Sign() == 0) {
			t.Fatalf("%s is saturated as %d, zero: %v", u, u.saturated(), u.isZero())
		}
	}
	for n := range 129 {
		want := new(big.Int).Lsh(big.NewInt(1), uint(n))
		if got := ones(n); got != wrapped(want.Sub(want, big.NewInt(1))) {
			t.Errorf("ones(%d) = %s", n, got)
		}
	}
}

// TestAddressesAreNumbers: IPv6 addresses are the number of their bytes, IPv4 ones are mapped.
func TestAddressesAreNumbers(t *testing.T) {
	for _, u := range numbers() {
		six, four := u.addr(IPv6), u.addr(IPv4)
		if new(big.Int).SetBytes(six.AsSlice()).Cmp(u.big()) != 0 || numberOf(six) != u || !six.Is6() {
			t.Fatalf("%s is the address %s, which is number %s", u, six, numberOf(six))
		}
		if numberOf(four) != (uint128{0, 0xffff_0000_0000 | u.lo&math.MaxUint32}) || !four.Is4() {
			t.Fatalf("the IPv4 address of %s is %s, which is number %s", u, four, numberOf(four))
		}
	}
}

// TestNthZero finds every zero of masks of all densities by counting.
func TestNthZero(t *testing.T) {
	rng := seeded(6)
	masks := []uint64{0, 1, 1 << 63, math.MaxUint64 >> 1, math.MaxUint64 - 1}
	for range 500 {
		a, b := rng.Uint64(), rng.Uint64()
		masks = append(masks, a, a|b, a&b)
	}
	for _, mask := range masks {
		k := uint64(0)
		for at := range uint64(64) {
			if mask>>at&1 == 1 {
				continue
			}
			if got := nthZero(mask, k); got != at {
				t.Fatalf("zero %d of %064b is at %d, want %d", k, mask, got, at)
			}
			k++
		}
	}
}
