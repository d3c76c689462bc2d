// Package addressindex is the operator's address index: which Service has each address of the
// cluster, and which addresses are in flight.
//
// It models three relations: which addresses have an IPAddress object, which a Service claims in
// spec.clusterIPs, and which ServiceCIDRs offer them. Only informer events feed it, one entry each,
// so usage, blockers and claimants are looked up without listing the cluster. An address counts as
// used when it has an IPAddress of any manager or a Service claims it: an address whose IPAddress
// was deleted by mistake is still in use by its Service and must not be given away.
//
// Code that draws or writes addresses also tells it what the cluster does not show yet: an address
// is in flight from when it is handed out, or our IPAddress is written there, until the watch shows
// it or 15 seconds pass. A freed address that a policy has cool down does so in memory at once.
//
// It promises that an address is in flight for one holder at a time; that one whose Service does
// not come yields when nothing else is free, first those of the namespace of which most does not
// come; that the namespaces which wait for an address take turns; and that this costs no more than
// a logarithm of what is in flight.
//
// Start with Index. It has two halves, and one lock for both:
//
//   - What the cluster says: index.go, addresses.go, owned.go, ranges.go and networks.go keep it,
//     cooldown.go and cooling.go what cools down, feed.go wakes the controllers.
//   - What is in flight: package inflight keeps it, which is plain data under that lock. Here,
//     inflight.go and draw.go say what that means for an address, waiting.go has the requests that
//     wait.
package addressindex
