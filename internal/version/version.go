// Package version tells the version of a program of clusterip-operator.
package version

import "runtime/debug"

// stamped is set by the linker (-X, with the full path of this package) to a version like v1.2.3.
var stamped string

// String returns what the linker stamped, else what Go knows of the module. It is never empty.
func String() string {
	if stamped != "" {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
