// Package admission answers the API server before it writes: it fills in the addresses of Services,
// and refuses what belongs to another Service or policy.
//
// It models one request at a time. A Service without addresses gets them from the ranges that the
// policies of its namespace name, or else from those that no policy has exclusively: dynamic bands
// first, uniformly at random. An address that a user chose stays, unless it is reserved for another
// Service. Everything else passes untouched.
//
//	request ──decode──> insane (pure)? it passes, and has no effect
//	                └─> hand on to the leader, which answers
//	                └─> gather ──decide (pure)──> decision ──draw──> patch, or refusal
//
// It promises:
//
//   - What no API server would store has no effect, and the cost of a request has a bound that does
//     not depend on its content.
//   - An address is handed out once. The leader draws for all replicas, from one register of what
//     is in flight. Without a leader the API server decides: names of IPAddresses are unique.
//   - No Service passes unsteered while there is a free address that it may have.
//   - No answer stands between a cluster and its Services: what cannot be known lets the request
//     pass, and the API server allocates as it does without us.
//   - Nothing is in flight for longer than a request can take, and what was taken for a request
//     that is refused is given back. A dry run changes nothing.
//
// The mutating webhook also refuses, which is a validating one's work: the API server allocates
// between the two, so a refusal by the second would cost an IPAddress that comes and goes, and
// every creation a second call.
//
// Start with ServiceSteerer and decide. The guards of other kinds are IPAddressGuard,
// ServiceCIDRGuard and PolicyGuard.
package admission
