// Package additional gives Services addresses beside their ClusterIPs.
//
// A Service asks with an annotation that names ServiceCIDRs, and gets one more address of each of its families from each of them:
//
//	Service web, IPv4 and IPv6                  IPAddress 10.9.0.7   of web, from blue
//	  additional-ips-from: blue, red   ───>     IPAddress fd09::5f   of web, from blue
//	                                            IPAddress 10.8.0.4   of web, from red (which has no IPv6)
//
// A policy has to allow it (additionalAddresses). Nothing is written into the Service. The API
// server does not know these addresses; no two Services get the same, for the names of IPAddresses
// are unique. An address is given back when the annotation drops its ServiceCIDR, when the Service
// loses the family, turns headless or ExternalName (but for the moment in which it is renumbered),
// or goes. Another Service of the same name (another UID) inherits nothing. An annotation that
// cannot be read changes nothing.
//
// The addresses that a Service had before it was renumbered are additional ones, too. Nobody draws them: renumbering puts a finalizer on their IPAddresses before the API
// server deletes these, and lists them on the Service. When the Service does not list one any more, or cannot have it, the finalizer is taken off here, wherever renumbering
// has stopped.
//
// What a Service has is kept through every change of policies and ranges, as its ClusterIP is; an address holds its ServiceCIDR
// against deletion.
//
// The unit of work is the Service, by name. It promises to act only on what the API server itself shows, to tell a Service once why
// it lacks an address, and to find after a restart what leaked while it was away.
//
// Start with decide.go, which holds every rule.
package additional
