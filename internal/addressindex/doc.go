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
// Start with Index; register.go has the flights, accounts.go what is known of the namespaces,
// inflight.go and draw.go what the index does with them, waiting.go the requests that wait;
// Addresses and Ranges are the sources that wake the controllers.
package addressindex
