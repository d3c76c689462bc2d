//go:build linux

// Package ipvs serves a Plan with IPVS: the kernel's load balancer chooses each connection's
// endpoint, by the Service's scheduler, and no more. Refusing, dropping, source ranges and
// masquerading are left to another backend ([Options].Rules), which gets the Plan flagged Balanced.
//
//	Delta ──> Table ── steps ───> Proxier ──> netlink: virtual servers, destinations, virtual IPs
//	  └── with Balanced ────────────└──> Rules
//
// A virtual IP is an address of the dummy interface clusterip-ipvs0: packets to it are delivered to
// the node, where IPVS takes them after the rules for incoming packets. A virtual IP and port has
// one virtual server, a node port one at each node address with node ports.
//
// What is ours must be known without memory of an earlier process: virtual servers that the Plan
// wants, those at addresses of our interface, and those at addresses of the node whose port has a
// mark (a virtual server without destinations at the unspecified address, which no packet can
// reach). All else is left alone, also what excludeCIDRs name unless the Plan wants it.
//
// A TCP endpoint that goes has the weight 0 until its connections have ended or a limit has passed.
//
// Table is pure: the same Plan leads to the same virtual servers, whatever came before, and the
// steps for a change do not grow with the number of Services. Start with table.go; server.go
// decides about one virtual server, check.go has drift and draining.
package ipvs
