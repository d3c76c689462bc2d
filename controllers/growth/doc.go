// Package growth creates ServiceCIDRs for ServiceCIDRPolicies with spec.growth before their ranges
// are full, and says in the conditions Growing and GrowthExhausted what it will create, has
// created, and cannot create. The leader runs it.
//
// It promises that a range which it creates overlaps nothing that the operator knows of, and that
// one need makes one range, whichever replica dies when: before each creation it asks the API
// server which ServiceCIDRs there are, and a ServiceCIDR's name follows from its block alone, so
// that the API server refuses a second one. A ServiceCIDR counts once it exists, ready or not.
// Nothing is deleted here: Growing names ServiceCIDRs that a policy can do without, for an admin.
//
// A look at a policy walks through the ServiceCIDRs; the address index knows the use of each.
//
// Start with decide.go, which has the rules; blocks.go has the arithmetic, conditions.go the words.
package growth
