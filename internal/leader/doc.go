// Package leader says which replica draws addresses: the elected leader alone, so that one register
// knows all that is in flight.
//
// The Lease of the leader election names its holder by the address at which that process serves
// webhooks. Every replica reads the Lease anyway, to see whether it may take over; [Lock] remembers
// what it read. A replica that is asked for an address and does not lead hands the AdmissionReview
// on to the leader, at most once, and answers what the leader says ([Client]). When no replica
// leads, or the leader refuses or is silent for a second (300 ms while connecting), it draws by
// itself: two replicas may then draw the same address, and the API server refuses one of the two
// creations, because the names of IPAddresses are unique. So it first reads the Lease once more:
// another replica may have become the leader.
//
// It promises that coordination never lets a Service pass unsteered, and that one request a second,
// and not each, asks a leader which has just failed.
//
// Start with Lock and Client.Review.
package leader
