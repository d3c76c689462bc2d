// Package servicecidr keeps the life of a ServiceCIDR: finalizers, conditions, and when it may go.
//
// It promises that no ServiceCIDR goes while an address in it would be left without a range,
// whichever manager has that address and whatever kube-controller-manager decides; that condition
// and event of a blocked deletion name what blocks it; and that exhaustion is announced beforehand.
//
// kube-controller-manager's service-cidr-controller may run beside it. Both write the same
// finalizer and the same condition Ready; a Ready of theirs that says the same as ours in other
// words is left as it is, so that the two never answer each other.
//
// Start with decide.go; controller.go reads, apply.go writes, conditions.go has the words,
// forecast.go remembers how ranges fill up, fullness.go is for a program that looks once.
// default.go is another controller, for the default one.
package servicecidr
