// Package cleanup takes away what the operator left on objects that are not its own: its finalizer and conditions
// on ServiceCIDRs, its label on IPAddresses, the IPAddresses that it kept for itself, the finalizer of former addresses, and in its namespace the certificate of the webhooks. It also
// takes away what has the API server itself keep Services out of exclusive ranges. It leaves what the API server and kube-controller-manager write too: upstream's finalizer,
// and the IPAddresses of Services. ServiceCIDRs that growth has created stay, with their annotation: Services have addresses in them. It does not touch Services, for nobody who uninstalls need be allowed to.
//
// It promises that nothing is changed in a dry run, that it can be run again after it was cut off, and that it
// refuses to work against a manager that still runs, which would write everything anew.
//
// Start with Run.
package cleanup
