package model

import "slices"

// Count adds to what a key counts, in a map without keys that count nothing. It tells whether the
// key came or went.
func Count[K comparable](of map[K]int, key K, by int) (changed bool) {
	before, after := of[key], of[key]+by
	Put(of, key, after, after != 0)
	return (before == 0) != (after == 0)
}

// Put gives a key a value, or takes the key away.
func Put[K comparable, V any](in map[K]V, key K, value V, present bool) {
	if present {
		in[key] = value
	} else {
		delete(in, key)
	}
}

// SetOf has some values as keys.
func SetOf[K comparable](all []K) map[K]bool {
	in := make(map[K]bool, len(all))
	for _, key := range all {
		in[key] = true
	}
	return in
}

// Has reports whether a value is among sorted ones.
func Has[T interface{ Compare(T) int }](sorted []T, a T) bool {
	_, found := slices.BinarySearchFunc(sorted, a, T.Compare)
	return found
}

// Sign is 1 for more and -1 for less.
func Sign(more bool) int {
	if more {
		return 1
	}
	return -1
}
