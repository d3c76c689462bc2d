//go:build linux

// Package nftables keeps a table of nftables in the kernel, as package iptables keeps rules.
//
// It models a [Proxier] of one family, the edge between the kernel and a pure [tables.Table]: it
// writes by netlink what differs, in one transaction after that of new chains, and repairs what
// other programs changed, while changes go on: it compares sums of fingerprints of elements, and
// handles of rules (check.go). It finds by trying which ports the kernel refuses (isolate.go).
//
// Start reading at [Proxier.Sync].
package nftables
