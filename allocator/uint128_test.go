package allocator

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator/internal/golden"
)

// numbers has what is special about 128 bits in two halves: the ends, and where the halves meet.
func numbers() []uint128 {
	halves := []uint64{0, 1, 63, 64, 1 << 32, math.MaxInt64, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}
	var list []uint128
	for _, hi := range halves {
		for _, lo := range halves {
			list = append(list, uint128{hi, lo})
		}
	}
	rng := rand.New(rand.NewPCG(5, 0))
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
	equal := func(what string, got uint128, want *big.Int) {
		t.Helper()
		if got != wrapped(want) {
			t.Fatalf("%s = %s, want %s", what, got, wrapped(want))
		}
	}
	for _, u := range numbers() {
		for _, v := range numbers() {
			lo := new(big.Int).SetUint64(v.lo)
			equal("add", u.add(v), new(big.Int).Add(u.big(), v.big()))
			equal("sub", u.sub(v), new(big.Int).Sub(u.big(), v.big()))
			equal("plus", u.plus(v.lo), new(big.Int).Add(u.big(), lo))
			equal("minus", u.minus(v.lo), new(big.Int).Sub(u.big(), lo))
			equal("or", u.or(v), new(big.Int).Or(u.big(), v.big()))
			if want := u.big().Cmp(v.big()); u.compare(v) != want || u.less(v) != (want < 0) {
				t.Fatalf("%s and %s compare as %d, less %v, want %d", u, v, u.compare(v), u.less(v), want)
			}
			if want := u.less(v); (u.lessMask(v) == -1) != want || (u.lessMask(v) == 0) == want {
				t.Fatalf("lessMask of %s and %s is %d", u, v, u.lessMask(v))
			}
		}
	}
}

func TestWordAndBase(t *testing.T) {
	for _, u := range numbers() {
		key, bit := u.word()
		if want := new(big.Int).Rsh(u.big(), 6); key != wrapped(want) || uint64(bit) != u.lo%64 {
			t.Fatalf("%s is bit %d of word %s", u, bit, key)
		}
		if got := key.base().plus(uint64(bit)); got != u {
			t.Fatalf("bit %d of word %s is %s, want %s", bit, key, got, u)
		}
	}
}

func TestSaturatedAndZero(t *testing.T) {
	for _, u := range numbers() {
		want := uint64(math.MaxUint64)
		if u.big().IsUint64() {
			want = u.lo
		}
		if u.saturated() != want || u.isZero() != (u.big().Sign() == 0) {
			t.Fatalf("%s is saturated as %d, zero: %v", u, u.saturated(), u.isZero())
		}
	}
}

func TestOnes(t *testing.T) {
	for n := range 129 {
		want := new(big.Int).Lsh(big.NewInt(1), uint(n))
		if got := ones(n); got != wrapped(want.Sub(want, big.NewInt(1))) {
			t.Errorf("ones(%d) = %s", n, got)
		}
	}
}

// TestAddressesAreNumbers: IPv6 addresses are what the oracle says, IPv4 ones stand at their mapped place.
func TestAddressesAreNumbers(t *testing.T) {
	for _, u := range numbers() {
		a := u.addr(false)
		if golden.Number(a).Cmp(u.big()) != 0 || numberOf(a) != u {
			t.Fatalf("%s is the address %s, which is number %s", u, a, numberOf(a))
		}
		a = u.addr(true)
		if want := big.NewInt(int64(uint32(u.lo))); golden.Number(a).Cmp(want) != 0 || !a.Is4() {
			t.Fatalf("the IPv4 address of %s is %s", u, a)
		}
		if got := numberOf(a); got != (uint128{0, 0xffff_0000_0000 | u.lo&math.MaxUint32}) {
			t.Fatalf("%s is number %s", a, got)
		}
	}
}

func TestMasks(t *testing.T) {
	var before uint64
	for bit := range uint(64) {
		if below(bit) != before || upTo(bit) != before|1<<bit {
			t.Errorf("bit %d: below %x, up to %x", bit, below(bit), upTo(bit))
		}
		before |= 1 << bit
	}
}

// TestNthZero finds every zero of a mask by counting, for all densities.
func TestNthZero(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 0))
	checkZeros(t, 0)
	for bit := range 64 {
		checkZeros(t, 1<<bit)
		checkZeros(t, ^(uint64(1) << bit))
		checkZeros(t, 1<<bit-1)
		checkZeros(t, ^(uint64(1)<<bit - 1))
	}
	for range 5000 {
		a, b, c := rng.Uint64(), rng.Uint64(), rng.Uint64()
		for _, mask := range []uint64{a, a | b, a & b, a | b | c, a & b & c} {
			checkZeros(t, mask)
		}
	}
}

func checkZeros(t *testing.T, mask uint64) {
	t.Helper()
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
