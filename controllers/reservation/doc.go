// Package reservation writes the IPAddresses that keep addresses free, so that the API server itself honours them when no operator runs. The leader
// runs it; package admission answers for Services on their way.
//
//	reservation 10.0.0.5, nobody has it      ---->  IPAddress 10.0.0.5, purpose reservation
//	10.0.0.6 freed a second ago, coolDown    ---->  IPAddress 10.0.0.6, purpose cooling, until its time is over
//	nothing wants it any more                <----  deleted
//	an unknown purpose, half a minute old    <----  deleted: another version of the operator left it
//
// The unit of work is the address. It promises never to take an address from anybody: a creation that finds the name taken is no error, a
// deletion names the UID that was seen, and nothing is written while the address is being handed out (addressindex.BeginWrite). What it knows is
// in the objects, so that a new leader goes on where the old one stopped.
//
// Start with decide.go; changes.go says what wakes the controller.
package reservation
