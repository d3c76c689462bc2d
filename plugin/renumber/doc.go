// Package renumber moves Services to other ClusterIPs without losing a connection.
//
// ClusterIPs are immutable, but not through type ExternalName. Two updates exchange them, and a
// finalizer on the IPAddress keeps the old address for the Service:
//
//	           Service                                   IPAddress of the old address
//	Waiting    10.96.0.7                                 of the API server
//	           ── hold ──>                               + finalizer
//	           ── prove ──> status: digest of what was
//	           ── leave ──> type ExternalName
//	Between    no address; annotation: what was          terminating: the name stays taken
//	           ── enter ──> type as before
//	Moved      10.200.0.7; annotation: former 10.96.0.7
//	           ── keep ──>                               ours, additional: the agent serves it
//	           ── release ──>                            finalizer off, gone
//	Done       10.200.0.7
//
// With --keep=service a second Service has the old address instead, before the first one leaves:
//
//	           IPAddress of 10.96.0.7
//	Waiting    of web; only web and its second one can have the address (handover.go)
//	           ── free ──>    deleted
//	           ── create ──>  of web-former-..., which has 10.96.0.7, as web has
//	           ── mark ──>    + proof, finalizer
//	           ── leave, enter ──>  terminating: the API server deletes it by its name
//	Moved      ── renew ──>   of web-former-..., written anew
//	Done       gone, with web-former-...
//
// So there is no moment in which another Service could be given the old address. It works without
// the operator; with it, what no command comes back for is cleaned up.
//
// The cluster itself is the record: which step a Service is at follows from the Service and the
// IPAddresses alone, each look takes one step, and a command that was killed goes on where it was.
// The owner of the Service may write into that record, so that each part of it has to prove itself:
// by an IPAddress, or by the status (record.go). Going back is moving with old and new exchanged. A
// Service that its owner has changed meanwhile is left as its owner wants it.
//
// Start with stage.go; plan.go chooses addresses, judge.go says what is not moved, record.go what
// is believed, spec.go has the two updates, and mover.go carries them out; second.go is what second
// Services are, endpoints.go their endpoints, give.go and settle.go how they come and go;
// elsewhere.go finds who else knows the range. New returns the command.
package renumber
