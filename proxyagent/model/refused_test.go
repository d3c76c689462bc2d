package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
)

// TestBisect has a kernel that takes all numbers but some, and one that takes none for a while.
func TestBisect(t *testing.T) {
	all := make([]int, 100)
	for i := range all {
		all[i] = i
	}
	for name, bad := range map[string][]int{"none": nil, "one": {57}, "the ends": {0, 99}, "side by side": {40, 41, 42}, "all": all} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			got, err := Bisect(all, func(some ...int) error {
				tries++
				for _, n := range some {
					if slices.Contains(bad, n) {
						return fmt.Errorf("%w: %d", ErrRefused, n)
					}
				}
				return nil
			})
			if found := slices.Sorted(maps.Keys(got)); err != nil || !slices.Equal(found, bad) {
				t.Errorf("found %v, %v; want %v", found, err, bad)
			}
			if most := 1 + 16*len(bad); tries > most {
				t.Errorf("it took %d tries, want %d at most", tries, most)
			}
		})
	}
}

// TestBisectBlamesNothingForAnotherReason has a fault that refuses a number of tries, whatever is
// tried, and a node that lacks something.
func TestBisectBlamesNothingForAnotherReason(t *testing.T) {
	for accidents := range 4 {
		left := accidents
		got, err := Bisect([]int{1, 2, 3, 4}, func(...int) error {
			if left--; left >= 0 {
				return ErrRefused
			}
			return nil
		})
		if len(got) > 0 {
			t.Errorf("after %d accidents %v is refused (%v)", accidents, got, err)
		}
	}
	_, err := Bisect([]int{1, 2}, func(some ...int) error {
		if len(some) == 2 {
			return ErrRefused
		}
		return syscall.ENOMEM
	})
	if !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("without memory: %v", err)
	}
}

func TestRefused(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.EINVAL: true, syscall.EEXIST: true, syscall.EADDRNOTAVAIL: true,
		syscall.ENOMEM: false, syscall.EPERM: false, syscall.ENODEV: false, errors.New("no answer"): false,
	} {
		if got := Refused(fmt.Errorf("asking: %w", err)); errors.Is(got, ErrRefused) != want || !errors.Is(got, err) {
			t.Errorf("%v: got %v", err, got)
		}
	}
	if Refused(nil) != nil {
		t.Error("nothing is refused")
	}
}
