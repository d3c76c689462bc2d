// Package history judges what API servers have answered, as a history: not whether a cluster is in
// order in the end, but whether it was at each moment.
//
// # What it models
//
// Each address is one object, with the Services that have it, the IPAddress that stands at it, and
// those that it is kept for. Requests are operations of that object. An operation has its effect at
// one moment between the request and the answer, and the history is good if such moments can be
// found for all operations (it is linearizable, which the library porcupine decides), so that
//
//   - a Service gets an address only while no other Service has it, no IPAddress names another
//     object there, and it is not kept for others;
//   - a Service that is refused an address "already allocated" is refused while another Service has
//     it, or an IPAddress stands there, or it is kept for others;
//   - what was released is released: the state in the end is the one that the operations lead to,
//     without an IPAddress of a Service that is gone.
//
// An exchange is an operation for each address that it touches. A handover (renumbering with
// --keep=service) keeps an address for two Services, which may then both have it: [Keep].
//
// # What it knows
//
// Requests come from the audit logs of all API servers ([Requests]). One that is killed leaves
// behind requests without an answer. What became of these the state in the end tells: a Service
// that no answer shows was created by one of them, and one that is gone was deleted by one. If
// there is no such request, a write has happened that no API server has logged: that is a fault.
// Without a state in the end, such operations are pending: they may have had an effect at any time,
// or none.
//
// Whatever makes the operator refuse an address for a time, although no Service has it, is a window
// around a request, given by [Windows]: an address drawn for a Service that never came, one
// that cools, and the delay of watches.
//
// # What it does not model
//
// Which ranges a Service may use, "range is full", and dry runs. Two API servers must not differ in
// their clocks.
//
// Start with [Check].
package history
