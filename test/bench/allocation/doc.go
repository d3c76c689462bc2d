// Package allocation measures how many addresses per second can be had through one API server: by our allocator
// (reserve, create the IPAddress, commit), by upstream's own allocator in a process of its own, and by creating Services,
// where upstream's allocator works inside the API server.
//
// All go through the same API server in turns, at several numbers of existing Services, and what one has
// taken is given back before the next one starts.
//
// As a measure for all of them, IPAddresses are also written without any allocator.
//
// Start with Run; ours.go, upstream.go, services.go and bare.go hold one contender each.
package allocation
