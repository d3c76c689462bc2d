// Package additional gives Services addresses beside their ClusterIPs.
//
// A Service that names ServiceCIDRs in an annotation gets one more address per family from each:
//
//	Service web, IPv4 and IPv6                  IPAddress 10.9.0.7   of web, from blue
//	  additional-ips-from: blue, red   ───>     IPAddress fd09::5f   of web, from blue
//	                                            IPAddress 10.8.0.4   of web, from red (IPv4 only)
//
// A policy has to allow it (additionalAddresses). Nothing is written into the Service. The API
// server does not know these addresses; no two Services get the same, as names of IPAddresses are
// unique. An address is given back when the annotation drops its ServiceCIDR, when the Service
// loses the family, turns headless or ExternalName (except in its renumbering), or goes. Another
// Service of that name (another UID) inherits nothing. An unreadable annotation changes nothing.
//
// The addresses that a Service had before it was renumbered are additional ones, too. They are not
// drawn: renumbering puts a finalizer on their IPAddresses before the API server deletes these, and
// lists them on the Service. When the Service does not list one any more, or cannot have it, the
// finalizer is taken off here, wherever renumbering has stopped.
//
// What a Service has is kept through every change of policies and ranges, as its ClusterIP is; an
// address holds its ServiceCIDR against deletion.
//
// The unit of work is the Service, by name. It promises to act only on what the API server shows,
// to tell a Service once why it lacks an address, and to find after a restart what leaked.
//
// Start with decide.go, which holds every rule.
package additional
