//go:build linux

// Package tables turns a plan into the chains, maps and sets of a table of nftables. It is pure: no
// kernel, no program, no clock. Rules are values of github.com/google/nftables/expr.
//
// There is no chain for a Service that asks for nothing special. A map leads from a destination,
// that is virtual IP, protocol and port, to the number of a route, and another one from that to a
// chain for a number of endpoints. The chain draws an index below this number and finds the
// endpoint of destination and index in another map. So a Service that comes, goes or changes is a
// few elements, however many Services there are. Chains change with the Globals, and where a number
// of endpoints or a time-out of session affinity is new.
//
// Session affinity takes one map for all ports: packets write into it which endpoint a client of a
// port has. A set has the endpoints that clients may keep: with one that goes, its clients are
// forgotten. All ports with the same number of endpoints and time-out share a chain.
//
// Schedulers are other ways to draw the index, and other sequences of endpoints behind it
// (spread.go): each as often as it weighs, or a look-up table. A port that is served in turn has
// its own chain, which counts for it; a hash of the client's address can be shared.
//
// It promises that the same Plan leads to the same elements and chains, whatever came before,
// except that endpoints keep their indexes (spread.go), and that what packets under way may still
// look for goes a second later (pending.go). Start reading at [Table.Apply]; port.go has what one
// port adds, layout.go the rules, compare.go what differs from the kernel.
package tables
