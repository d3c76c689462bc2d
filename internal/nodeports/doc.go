// Package nodeports models the node ports of Services: the range that kube-apiserver gives them
// from, its two bands (KEP-3668), and which numbers are in use.
//
// No API tells the range: it is the value of kube-apiserver's --service-node-port-range, which the
// operator and the plugin are told. A number belongs to one Service, which may use it for a port of
// each protocol, so numbers are counted and not ports.
//
// Start with Range; Index counts what the watch of Services shows.
package nodeports
