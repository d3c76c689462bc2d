// Package hostile is a tenant who means harm: a user who may create, update, patch and delete
// Services in one namespace, and nothing else.
//
// A [Tenant] sends bytes as they are, because clients refuse to write most of what it has in mind.
// The attacks are values, so that a suite tries each by itself and a soak all of them at random.
// They say what is sent; what must not come of it is the suites' to say.
//
// Start with [New].
package hostile
