// Package ledger keeps the operator's running account of every Service address in the cluster.
//
// It models three relations and nothing else: which addresses have an IPAddress object, which are claimed by
// a Service's spec.clusterIPs, and which ServiceCIDRs offer them. The account is kept by informer events, one
// entry per event, so that usage, blockers and claimants are looked up without ever listing the cluster.
//
// An address counts as used when it has an IPAddress of any manager or a Service claims it: an address whose
// IPAddress was deleted by mistake is still in use by its Service and must not be given away.
//
// Start with Ledger; Addresses and Ranges are the sources that wake the controllers.
package ledger
