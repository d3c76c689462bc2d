// Package million measures without an API server what the arithmetic of the operator and of the
// agent takes in clusters larger than any that can be started here: the address index, the pool
// from which addresses are drawn, the agent's compiler, and what each of its modes makes of a plan.
// Nothing is read from a cluster or written into a kernel.
//
// Start with Run. index.go has the manager's part, agent.go the agent's.
package million
