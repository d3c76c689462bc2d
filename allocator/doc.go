// Package allocator is the arithmetic of Service addresses: which addresses a range has, which are
// used, and which free one comes next. It takes and returns values; it knows neither Kubernetes nor
// a clock, and reaches no network.
//
// # The nouns
//
//   - [Family]: IPv4 or IPv6.
//   - [Range]: the prefix of a Service range with its usable addresses.
//   - [Band]: one half of a range; the low one is for addresses that people choose, the high one
//     for addresses that are drawn.
//   - [Span]: a run of addresses, both ends included. Ranges, bands and exclusions are spans.
//   - [Pool]: what is used in a cluster, in both families, safe for concurrent use.
//   - [Tier]: spans made ready to be drawn from.
//   - [Ages]: addresses by the time since which they are there, such as those in flight.
//   - [Request]: where an address may be drawn: tiers in order, and whether cooling ones yield.
//
// # What it promises
//
// All ranges share one set of used addresses per family, because ranges may overlap and an address
// is unique in the cluster. To draw a uniformly random free address of a band: count the free ones,
// draw a number k below the count, take the k-th. Nothing scans the range, so an allocation costs
// the same in an empty range and in one that is 99.99 % full, and memory follows the number of used
// addresses. If a tier has many runs, random tries come first, counting only if they fail.
//
// A pool is a view, never the arbiter: an address that [Pool.Draw] hands out is assumed until the
// API server has accepted it. [Pool.Observe] and [Pool.Forget] report how that went;
// [Pool.Observe], [Pool.Cool] and [Pool.Release] also report what the cluster says.
//
//	Draw ──> write to the API server ──┬──> Observe  it was accepted
//	                                   └──> Forget   it was refused
//
// Start reading at [Pool], then [Request]; draw.go draws, set.go holds what is used.
package allocator
