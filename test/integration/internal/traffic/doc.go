// Package traffic creates Services from many clients at once, and says what became of the requests.
//
// It models clients as a [Crowd], answers as a [Tally], and what API servers have written down about requests as an [AuditLog]: who chose
// the addresses of a Service, and who wrote and deleted an IPAddress.
//
// Start with [NewCrowd].
package traffic
