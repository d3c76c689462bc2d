// Package kube says what the API server serves and who allocates, and what of its objects a program
// of ours knows (NewScheme) and keeps in memory (CacheOptions). Manager and plugin do it alike.
//
// It promises that only NewScheme knows the version of ServiceCIDRs and IPAddresses, and that no
// object in a cache costs more than a bound, whatever its author writes. Discover returns an error
// that names the remedy where the API server does not serve the two kinds.
//
// Start with Discover.
package kube
