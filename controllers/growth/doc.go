// Package growth creates ServiceCIDRs for ServiceCIDRPolicies with spec.growth before their ranges are full, and says in the conditions Growing and GrowthExhausted
// what it will create, has created, and cannot create. The leader runs it.
//
// It promises that a range which it creates overlaps nothing that the operator knows of, and that one need makes one range, whoever dies when: the API server itself is
// asked which ServiceCIDRs there are before each creation, and the name of a ServiceCIDR follows from its block alone, so that the API server refuses a second one. A
// ServiceCIDR counts as soon as it exists, ready or not. Nothing is deleted here: Growing names the ServiceCIDRs that a policy could do without, and an admin decides.
//
// A look at a policy costs a walk through the ServiceCIDRs; the address index knows how much of each is used.
//
// Start with decide.go, which has the rules; blocks.go has the arithmetic and conditions.go the words.
package growth
