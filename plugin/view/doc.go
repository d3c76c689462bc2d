// Package view reads a cluster as the operator has it: its address index, its policies, and what is
// wrong, all by the functions of the operator itself. It serves the commands of the plugin.
//
// It promises to change nothing but what Repair is asked for, and to take what the API server alone
// knows from there. What only the leader's memory has does not show.
//
// Of Services and IPAddresses there may be hundreds of thousands. They are read a page at a time
// (pages.go), and kept as bytes without what is not read (mirror.go), so that a command occupies
// some hundred bytes for each, whatever is in them. A question about few addresses reads few
// objects (narrow.go).
//
// Start with Open, and OpenFor.
package view
