// Package migrate is what the suites about `kubectl clusterip migrate` share: types into which they
// [Decode] its output, and a cluster that knows where its API servers are ([Publish]).
package migrate

// Repairs are the events by which an API server reports stored objects as wrong, also in 1.32.
var Repairs = []string{
	"ClusterIPNotValid", "ClusterIPOutOfRange", "ClusterIPNotAllocated", "ClusterIPAlreadyAllocated", "ServiceCIDRFull",
	"IPAddressNotAllocated", "IPAddressWrongReference", "UnknownError", "FailedToAllocate",
	"KubernetesServiceCIDRError", "KubernetesDefaultServiceCIDRInconsistent",
}
