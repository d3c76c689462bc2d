// Package reservation writes IPAddresses that keep addresses free, so that the API server honours
// them without an operator. The leader runs it; package admission answers for Services underway.
//
//	reservation 10.0.0.5, no Service has it   --->  IPAddress 10.0.0.5, purpose reservation
//	10.0.0.6 freed a second ago, coolDown     --->  IPAddress 10.0.0.6, purpose cooling, for a time
//	nothing wants it any more                 <---  deleted
//	an unknown purpose, half a minute old     <---  deleted: another operator version left it
//
// The unit of work is the address. It promises to take none from a holder: a creation that finds
// the name taken is no error, a deletion names the UID seen, and nothing is written while the
// address is handed out (addressindex.BeginWrite). A new leader goes on from what the objects say.
//
// Start with decide.go; changes.go says what wakes the controller.
package reservation
