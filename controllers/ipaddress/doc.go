// Package ipaddress keeps the one-to-one relation of KEP-1880 between the addresses of Services and
// IPAddress objects: every ClusterIP has an IPAddress that names its Service, and every IPAddress
// of the API server's allocator names a Service that holds it.
//
//	Service A [10.0.0.1]  <---->  IPAddress 10.0.0.1 -> A      as it should be
//	Service A [10.0.0.1]                                       missing: created
//	                              IPAddress 10.0.0.1 -> A      orphan: deleted after a grace
//	Service A [10.0.0.1]  <-----  IPAddress 10.0.0.1 -> B      wrong parent: created anew
//	Service A [10.0.0.1]  <---->  IPAddress, labels lost       wrong labels: written again in place
//	Service A, B [10.0.0.1]       IPAddress 10.0.0.1 -> B      duplicate: the older Service keeps it
//
// The unit of work is the address, not the object, so that an address without an object is a key
// like any other. It promises to act only on what it has seen twice and then read from the API
// server itself, and to leave IPAddresses of other managers alone.
//
// Start with decide.go, which holds every rule beyond those that the migration shares, in package
// relation; controller.go reads and confirms, apply.go writes and reports. band.go labels addresses
// with their band and is a controller of its own.
package ipaddress
