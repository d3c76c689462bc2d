// Package ipset keeps IP sets in the kernel, for rules of iptables: a [Set] and its [Entry] values.
//
//	Create ─┐
//	Apply  ─┼──> Kernel ──> netlink        few entries or many: in batches, like `ipset restore`
//	Destroy ┘       └─────> Counts, Entries
//
// It promises that everything is idempotent: creating what exists, adding what is in, deleting what
// is not, destroying what is gone. A fault of one set or entry never stops the work on the rest;
// the errors name each. It starts no program, and needs only CAP_NET_ADMIN.
//
// What the kernel does not allow: names longer than 31 bytes; a network of length zero as [Entry]
// Source (to allow all sources, do without the set); another type, family or expiry for a set that
// exists; destroying a set that a rule refers to, which iptables-nft frees a moment after deletion.
//
// Start with set.go and entry.go, which hold the values, then kernel_linux.go.
package ipset
