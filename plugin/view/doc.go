// Package view reads a cluster as the operator has it: its address index, its policies, and what is
// wrong, all by the functions of the operator itself. It serves the commands of the plugin.
//
// It promises to change nothing but what Repair is asked for, and to take what the API server alone
// knows from there. What only the leader's memory has does not show.
//
// Start with Open.
package view
