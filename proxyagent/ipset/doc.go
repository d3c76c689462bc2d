// Package ipset keeps IP sets in the kernel, which rules of iptables look into: it models a [Set] and the [Entry] values in it.
//
//	Create ─┐
//	Apply  ─┼──> Kernel ──> netlink        few entries or many: batches, as `ipset restore` sends them
//	Destroy ┘       └─────> Counts, Entries
//
// It promises that everything is idempotent: creating what exists, adding what is in, deleting what is not, destroying what is gone.
// What is wrong with one set or entry never keeps the others from being done; the errors name each. No program is started, and CAP_NET_ADMIN
// suffices.
//
// What the kernel does not allow, so that callers know: names longer than 31 bytes; a network of length zero as [Entry] Source (who
// allows all sources has to do without the set); another type, family or expiry for a set that exists; destroying a set that a rule
// refers to, where iptables-nft frees rules some moments after it has deleted them.
//
// Start with set.go and entry.go, which hold the values, then kernel_linux.go.
package ipset
