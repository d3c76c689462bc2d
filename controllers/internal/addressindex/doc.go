// Package addressindex is the address index of the operator: who has each Service address of the cluster, and which addresses are in flight.
//
// It models three relations: which addresses have an IPAddress object, which are claimed by a Service's spec.clusterIPs, and which ServiceCIDRs
// offer them. Informer events feed it, one entry for each event, and nothing else does, so that usage, blockers and claimants are looked up without ever
// listing the cluster. An address counts as used when it has an IPAddress of any manager or a Service claims it: an address whose
// IPAddress was deleted by mistake is still in use by its Service and must not be given away.
//
// Beside that, those who draw or write addresses tell it what the cluster does not show yet: an address is in flight from the moment that it is
// handed out, or an IPAddress of ours is written there, until the watch shows it, or 15 seconds have passed. A freed address that a policy has cool down does so in memory
// at once.
//
// It promises that an address is in flight for one holder at a time; that one whose Service does
// not come yields when nothing else is free, first those of the namespace of which most does not
// come; that the namespaces which wait for an address take turns; and that none of this costs more
// than a logarithm of what is in flight.
//
// Start with Index; register.go has the flights, accounts.go what is known of the namespaces,
// inflight.go and draw.go what the index does with them, waiting.go the requests that wait;
// Addresses and Ranges are the sources that wake the controllers.
package addressindex
