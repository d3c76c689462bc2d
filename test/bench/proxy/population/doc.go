// Package population gives the Services of a cluster the EndpointSlices that Service proxies are measured with, and changes single ones
// of them.
//
// All endpoints are addresses of one namespace in which a server listens on [OpenPort] and nobody on [ShutPort].
//
// Start with [Population.Adopt] and [Population.Set].
package population
