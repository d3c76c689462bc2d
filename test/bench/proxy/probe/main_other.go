//go:build !linux

package probe

// Main is for Linux alone.
func Main([]string) int { return 1 }
