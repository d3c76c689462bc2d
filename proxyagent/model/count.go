package model

// Count adds to what a key counts, in a map without keys that count nothing. It tells whether the
// key came or went.
func Count[K comparable](of map[K]int, key K, by int) (changed bool) {
	before := of[key]
	if of[key] = before + by; of[key] == 0 {
		delete(of, key)
	}
	return (before == 0) != (before+by == 0)
}

// Sign is 1 for more and -1 for less.
func Sign(more bool) int {
	if more {
		return 1
	}
	return -1
}
