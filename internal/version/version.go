// Package version tells of which version a program of clusterip-operator is.
package version

import "runtime/debug"

// stamped is set by the linker: -X github.com/clusterip-operator/clusterip-operator/internal/version.stamped=v1.2.3.
var stamped string

// String returns what the linker stamped, or else what the Go tools know of the module. It is never empty.
func String() string {
	if stamped != "" {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
