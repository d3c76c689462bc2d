// Package cleanup takes away what the operator has written:
//
//	ServiceCIDRs            our finalizer and conditions
//	IPAddresses             our label, the finalizer of former addresses; the operator's own go
//	the API server          the binding that has it keep Services out of exclusive ranges
//	our own namespace       the ConfigMap of those, and the certificate of the webhooks
//
// It leaves what the API server and kube-controller-manager write too: upstream's finalizer, and
// the IPAddresses of Services. ServiceCIDRs that growth created stay, with their annotation:
// Services have addresses in them. It does not touch Services, so that an admin needs no right to.
//
// It promises that a dry run changes nothing, that it can be run again after an interruption, and
// that it refuses to work beside a running manager, which would write everything anew.
//
// Start with Run.
package cleanup
