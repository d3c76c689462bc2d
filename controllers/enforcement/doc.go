// Package enforcement has the API server itself keep Services out of the ranges of exclusive
// policies, and finds the Services that got in. It has the API server keep what is cordoned, and
// draw nothing where addresses are given by request only. The leader runs it.
//
// For policies with enforcement: APIServer three objects of one name are there:
//
//	ValidatingAdmissionPolicy          expressions, which never change: a manifest that admins apply
//	ConfigMap                          who may have which addresses, of all policies together
//	ValidatingAdmissionPolicyBinding   between the two, as long as a policy wants it
//
// The operator writes the last two, mends them within a second, and says in the condition Enforced
// when the first is missing or not that of its version. It may not write the first: a user that
// creates a ValidatingAdmissionPolicy that reads ConfigMaps must be allowed to read all of them.
//
// Nothing that users write becomes an expression: names and labels are values in the ConfigMap. The
// API server evaluates the policy after it has allocated, so chosen and drawn addresses are refused
// alike; what it had allocated it gives back. Where they differ, by request only, it goes by
// metadata.managedFields: it notes there what a request set before it draws. It looks addresses up
// by the few prefix lengths that there are, so the number of ranges costs next to nothing.
//
// The ValidatingAdmissionPolicy fails closed: an error in an expression refuses the Service. A
// ConfigMap that is missing opens the ranges until it is mended (parameterNotFoundAction: Allow),
// so that no order in which the operator and its namespace are deleted leaves a cluster that
// refuses Services.
//
// For all exclusive policies it tells, in the condition Violated, a metric and an event on the
// Service, which Services have addresses kept for other Services: they came while nothing guarded
// the range, or before the policy, or their namespace had other labels.
//
// It promises that the cost of an event does not depend on the number of Services. Start with
// config/enforcement/policy.yaml for what the API server does, plan.go for what it is given,
// audit.go for the Services that got in, and reconciler.go for what wakes them.
package enforcement
