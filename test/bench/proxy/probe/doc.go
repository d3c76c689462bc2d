// Package probe measures what the first packet of a connection costs: a small program in a network namespace of the benchmark's own,
// which the benchmark starts from its own binary.
//
// What is measured is the connect() of TCP alone. The client is one thread on one processor, and makes the system call without leaving
// word with the scheduler of Go. The server listens on the same processor with the lowest priority: the kernel answers for it, and no
// other processor has to be woken. Connections are reset, so that none of them lingers.
//
// Start with [Client] and [Server]; [Main] is the program.
package probe
