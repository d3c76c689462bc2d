//go:build linux

// Package nftables serves a Plan with native nftables: the backend beside package iptables, for one family.
//
//	Delta ── Tables ──> elements of maps and sets that change ── Proxier ──> netlink: one transaction
//	                └─> chains and rules, which change with the Globals alone ──> the program nft
//
// There is no chain for a Service. A map leads from a destination, that is virtual IP, protocol and port, to a chain for a number of endpoints; that chain draws an index below this
// number and finds the endpoint of destination and index in a second map. So a Service that comes, goes or changes is a few elements, whose cost does not depend on how many others
// there are. Only session affinity takes chains of its own.
//
// Tables is pure: the same Plan leads to the same elements, whatever came before. Proxier keeps the kernel as Tables says, and repairs what others change. Start with tables.go, then
// layout.go for the chains.
package nftables
