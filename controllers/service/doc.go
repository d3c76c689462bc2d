// Package service reports what is wrong with a Service's cluster IPs from the Service's side: an
// entry that is no address, and an address that no ServiceCIDR offers. Neither can be repaired,
// because spec.clusterIPs is immutable; the Service has to be created anew, or the range brought
// back. Everything that concerns the IPAddress of an address is the ipaddress controller's.
//
// Start with decide.go.
package service
