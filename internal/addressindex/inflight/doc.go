// Package inflight keeps what is in flight: the addresses that this process has handed out, or
// where it writes an IPAddress, and that the cluster does not show yet.
//
// It is plain data. The caller holds the lock (that of addressindex.Index, where an address is in
// flight if and only if the pool has it as Assumed) and tells the time; nothing here waits, calls
// back or knows of the cluster.
//
// It promises that each address is in flight once; that no namespace has more than 4096, and all
// together no more than 65536; that an address whose Service does not come yields, first those of
// the namespace of which most does not come, and never before 50 ms; and that each question costs
// no more than a logarithm of what is in flight.
//
// Start with Flights. accounts.go has what is known of each namespace, which decides what yields.
package inflight
