package allocator

import (
	"math/rand/v2"
	"testing"
)

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
