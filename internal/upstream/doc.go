// Package upstream writes and recognises objects as kube-apiserver's own allocator makes them
// (KEP-1880), so that an API server finds nothing to repair in what we wrote.
//
// It models what is in an IPAddress of a Service, and what shows that an API server wrote an
// object. Everything here is a pure function.
package upstream
