// Package handover explores what two managers do to one address while one takes over from the
// other, in every order, and finds the shortest way to a state that must not be.
//
// # What it models
//
// One address, two Services that come and go, the IPAddress that stands there, the ledger of its
// history, and two managers with a Lease. The Lease may pass to the other manager at any time; the
// one that had it goes on until it notices. A manager reads the IPAddress, then asks the API server
// for the Services, decides, and its write arrives at any later time: also after it was killed, and
// after the other manager's. A cache that lags needs nothing of its own: what was decided on an old
// state and arrives now is the same as a late write. The API server is the arbiter: it refuses a
// write whose preconditions do not hold ([Guards]).
//
// # What must not be
//
//   - two Services have the address;
//   - a manager's write takes away the IPAddress of a Service that has the address, or one that
//     another program looks after;
//   - the ledger loses an owner that was written.
//
// # What it does not model
//
// Policies and reservations: a reservation that is taken back and made again leaves its IPAddress
// as it was, so that a late deletion may hit it. Webhooks refuse the address all the same, from
// memory, and the leader writes the IPAddress anew. IPAddresses that a user deletes: until one is
// restored, webhooks alone keep the address. Time: that a creation is over within the minute for
// which an IPAddress without a Service is left alone is an assumption, [Guards].Patience. That
// anything happens in the end: specs show that.
//
// Start with explore in explore.go; test/integration/behaviour/precondition_test.go sends the late
// writes of the counterexamples to real API servers.
package handover
