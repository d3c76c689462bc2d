// Package ruleset reads the whole firewall of a network namespace, as the suites about robustness and cleanup compare it: the tables of
// iptables in both variants and both families, the ipsets, and the native tables of nftables.
//
// It models a [Snapshot], which is plain text by program, and what it says of one owner ([Owner]): the rules of the node agent, of
// kube-proxy, or of all others.
//
// It promises to leave out what is no rule: counters, comments of the programs, the order of entries in a set, and tables that hold
// nothing but their own built-in chains with policy ACCEPT, for no program can take those away again.
//
// Start with [Take].
package ruleset
