// Package population fills a cluster, through its API server, with the Services and EndpointSlices that Service proxies are measured on, and
// changes single ones of them.
//
// All endpoints are addresses of one namespace in which a server listens on [OpenPort] and nobody on [ShutPort].
//
// Start with [Population.Grow] and [Population.Set].
package population
