// Package history keeps who had each address, and when, beyond the life of Services and IPAddresses
// and beyond the hour of events; and logs each change of hands.
//
//	Services, IPAddresses ── events ──> changes (decide.go) ──> log, of the leader
//	                                       └──> ledger, of every replica ── leader ──> ConfigMaps
//
// The log is always on: it costs a comparison of addresses for each event of a Service. The ledger
// is there only if the configuration wants a history. Every replica keeps it, from its own start
// on, so that one that takes over knows what the leader before saw and did not write any more. What
// happened while no replica ran is told as a time between two.
//
// It promises one write a second at most, but for what is left when a leader ends, and one for all
// changes of a ConfigMap within two seconds, whatever tenants do; each names the version that it
// replaces, so that a replica which does not lead any more overwrites nothing. What a ConfigMap may
// hold is in internal/history. The cost of an event does not depend on the number of Services.
//
// Start with decide.go for what a change is, and writer.go for what is written when.
package history
