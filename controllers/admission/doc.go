// Package admission answers the API server before it writes: it fills in the addresses of Services, and refuses what belongs to others.
//
// It models one request at a time. A Service without addresses gets them from the ranges that the policies of its namespace name, or else
// from those that nobody has for himself: dynamic bands first, uniformly at random. An address that a user chose is left as it is,
// unless it is kept for somebody else. Everything else passes untouched.
//
//	request ──decode──> world ──decide (pure)──> verdict ──draw──> patch, or refusal
//
// It promises:
//
//   - An address is handed out once. It is assumed in memory at once, drawn from a part of the addresses that is this replica's own, or
//     claimed through the API server where another replica might draw it too.
//   - No answer stands between a cluster and its Services: what cannot be known lets the request pass, and the API server
//     allocates as it does without us.
//   - Nothing is kept in memory for longer than a request can take. A dry run changes nothing.
//
// Service creations are refused by the mutating webhook, although that is a validating one's work: the API server allocates between the
// two, so that a refusal by the second would cost an IPAddress that comes and goes, and every creation a second call.
//
// Start with ServiceSteerer and decide. The guards of other kinds are IPAddressGuard, ServiceCIDRGuard and PolicyGuard.
package admission
