// Package enforcement has the API server itself keep Services out of the ranges of exclusive policies, and finds the Services that got in. The leader runs it.
//
// For policies with enforcement: APIServer it maintains three objects, as long as there is one:
//
//	ExclusiveRanges                    who may have which addresses, of all policies together
//	ValidatingAdmissionPolicy          the expressions, which never change, and read the ExclusiveRanges
//	ValidatingAdmissionPolicyBinding   between the two
//
// Nothing that users write becomes an expression: names and labels are values in the ExclusiveRanges. The API server evaluates the policy after it has allocated, so chosen and
// drawn addresses are refused alike; what it had allocated it gives back. It looks addresses up by the few prefix lengths that there are, so the number of
// ranges costs nothing.
//
// The ValidatingAdmissionPolicy fails closed: who wants the API server to enforce would rather have a creation refused than a stranger let in, and an
// API server that has just started and does not know the ExclusiveRanges yet would let in anybody. So that a cluster does not refuse Services for good
// when the CustomResourceDefinitions are deleted and the operator is gone, policy and binding have the ExclusiveRanges as their owner: they go with them.
//
// For all exclusive policies it tells, in the condition Violated, a metric and an event on the Service, which Services have addresses that are kept for others: they came
// while nothing guarded the range, or before the policy, or their namespace had other labels.
//
// It promises that the cost of an event does not depend on the number of Services. Start with objects.go for what the API server is given, audit.go for the Services that
// got in, and reconciler.go for what wakes them.
package enforcement
