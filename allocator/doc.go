// Package allocator is the arithmetic of Service addresses: which addresses a range has, which of them are
// used, and which free one comes next. It takes values and returns values; it knows neither Kubernetes nor a
// clock, and it reaches no network.
//
// # The nouns
//
//   - [Range]: the prefix of a Service range with its usable addresses.
//   - [Band]: the two halves of a range; the low one is meant for addresses that people choose, the high one
//     for addresses that are drawn.
//   - [Span]: a run of addresses, both ends included. Ranges and bands are spans; so is whatever is excluded.
//   - [Pool]: what is used in a cluster, in both families, safe for concurrent use.
//   - [Tier]: spans made ready to be drawn from.
//   - [Ages]: addresses by the time since when they are there, such as those that are in flight.
//   - [Request]: where one address may be drawn: tiers in order, and whether cooling addresses yield.
//
// # What it promises
//
// One set of used addresses per family is shared by all ranges, because ranges may overlap and an address is unique in the
// cluster, not in a range. "A uniformly random free address of this band" is then: count the free ones, draw
// a number k below the count, take the k-th. There is no scan of the range, so an allocation costs the same in an empty
// range and in one that is 99.99 % full, and memory follows the number of used addresses, not the size of
// the range. Where a tier has many runs, addresses are tried at random first, and counted only if that fails.
//
// A pool is a view and never the arbiter: an address that [Pool.Draw] hands out is assumed until the API
// server has accepted it. [Pool.Observe] and [Pool.Forget] tell how that went; [Pool.Observe], [Pool.Cool] and
// [Pool.Release] also tell what the cluster says.
//
//	Draw ──> write to the API server ──┬──> Observe  it was accepted
//	                                   └──> Forget   it was refused
//
// Start reading at [Pool], then [Request]; draw.go draws, set.go holds what is used.
package allocator
