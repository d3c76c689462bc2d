// Package policy writes the status of ServiceCIDRPolicies: conditions and counts, but not the
// refusals, which package admission writes, nor the conditions of packages enforcement and growth.
// Ready sums up Accepted, Programmed and Enforced.
// The leader runs it.
//
// The unit of work is the policy. Conditions and what users wait for are written within seconds,
// other counts half a minute late: each write goes to etcd and to every replica.
//
// Start with decide.go and conditions.go, which have the rules and the words.
package policy
