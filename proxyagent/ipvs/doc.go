//go:build linux

// Package ipvs serves a Plan with IPVS: the kernel's load balancer chooses the endpoint of each connection, by a scheduler of the Service. It does that alone. Refusing, dropping, source
// ranges and masquerading are left to another backend (the spoke), which gets the same Plan with the flag Balanced.
//
//	Delta ──> Table ── steps ───> Proxier ──> netlink: virtual servers and their destinations; virtual IPs on the interface clusterip-ipvs0
//	  └── with Balanced ────────────└──> the spoke
//
// A virtual IP is an address of a dummy interface, so that packets to it are delivered to the node, where IPVS takes them after the rules for incoming packets. There is a virtual server for each virtual
// IP and port, and for each node port one at every address of the node at which node ports are served.
//
// What is ours has to be known without memory of an earlier process. Ours are virtual servers that the Plan wants, those at addresses of our interface, and those at addresses of the node whose port has
// a mark: a virtual server without destinations at the unspecified address, which no packet can reach. All others are left alone, and so is what excludeCIDRs name unless the Plan wants it.
//
// A TCP endpoint that goes gets the weight 0: no new connections, until those that it has end or a limit has passed.
//
// Table is pure: the same Plan leads to the same virtual servers, whatever came before, and the steps for a change do not grow with the number of Services. Start with table.go; server.go decides
// about one virtual server, check.go has drift and draining.
package ipvs
