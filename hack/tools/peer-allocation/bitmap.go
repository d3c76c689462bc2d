package main

import (
	"context"
	"fmt"
	"math/big"

	corev1 "k8s.io/api/core/v1"
)

// bitmaps are the keys under which API servers up to 1.32 keep what they allocate from: that of the primary range and that of the
// secondary one.
var bitmaps = []string{"/registry/ranges/serviceips", "/registry/ranges/secondaryserviceips"}

// writeBitmaps sets the bit of each copy. Before its start the API server must have created the bitmaps.
func (s *seeding) writeBitmaps(ctx context.Context) error {
	if len(s.prefixes) > len(bitmaps) {
		return fmt.Errorf("there are bitmaps for %d ranges at most", len(bitmaps))
	}
	for n, prefix := range s.prefixes {
		allocation, err := read(ctx, s.etcd, bitmaps[n], &corev1.RangeAllocation{})
		if err != nil {
			return err
		}
		bits := new(big.Int).SetBytes(allocation.Data)
		for i := s.from; i < s.to; i++ {
			bits.SetBit(bits, bit(prefix, i), 1)
		}
		allocation.Data = bits.Bytes()
		op, err := put(bitmaps[n], corev1.SchemeGroupVersion.WithKind("RangeAllocation"), allocation)
		if err != nil {
			return err
		}
		if _, err := s.etcd.Do(ctx, op); err != nil {
			return fmt.Errorf("writing %s to etcd: %w", bitmaps[n], err)
		}
	}
	return nil
}
