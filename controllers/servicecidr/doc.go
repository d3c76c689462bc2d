// Package servicecidr keeps the life of a ServiceCIDR: finalizers, conditions, and the decision whether it may go.
//
// It promises that no ServiceCIDR disappears while an address in it would be left without a range, whoever
// manages that address and whatever kube-controller-manager decides; that the condition and the event of a
// blocked deletion name what blocks it; and that exhaustion is announced before it happens.
//
// kube-controller-manager's service-cidr-controller may run beside it. Both write the same finalizer and the same
// condition Ready; a Ready of theirs that says the same as ours in other words is left as it is, so that the
// two never answer each other.
//
// Start with decide.go; controller.go reads and apply.go writes, conditions.go has the words, forecast.go remembers how ranges fill up.
// default.go looks after the default ServiceCIDR and is a controller of its own.
package servicecidr
