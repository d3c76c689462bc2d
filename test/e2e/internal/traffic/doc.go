// Package traffic is constant traffic to one address, and an account of what of it got lost, for the suites that change, break and replace
// what serves the address meanwhile.
//
// It models three kinds of traffic: [Connections], a stream of new TCP connections; [Hold], TCP connections that stay open and are used
// all the time; [Flow], the same for UDP sockets. Each runs in its own goroutines until Stop, which returns a [Report].
//
// It promises that nothing lost goes unseen: a connection that was made at the second attempt counts as lost, for the kernel says how
// often it had to send a packet again. And that it blames nothing on a slow machine: there is no other measure of time than the long
// attemptTimeout of a single attempt.
//
// Start with [Connections].
package traffic
