// Package cleanup takes away what the operator has written:
//
//	ServiceCIDRs            our finalizer and conditions
//	IPAddresses             our label, and the finalizer of former addresses; those that were kept for the operator itself go
//	the API server          the binding that has it keep Services out of exclusive ranges
//	our own namespace       the ConfigMap of those, and the certificate of the webhooks
//
// It leaves what the API server and kube-controller-manager write too: upstream's finalizer, and the IPAddresses of Services. ServiceCIDRs that growth has created stay, with their
// annotation: Services have addresses in them. It does not touch Services, so that whoever uninstalls need not be allowed to.
//
// It promises that nothing is changed in a dry run, that it can be run again after it was cut off, and that it
// refuses to work beside a manager that still runs, which would write everything anew.
//
// Start with Run.
package cleanup
