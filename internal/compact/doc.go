// Package compact models what a cache keeps of the objects of which there are as many as there are
// addresses: Services and IPAddresses as nearly all of them are, in 80 bytes and their names. As
// Kubernetes declares them they take 900 and 400 bytes, of which most are empty.
//
// It promises that Expand gives back what OfService and OfIPAddress were given, or that they take
// nothing: what is not as usual stays as it is. A compact object has no kind that a client could
// send, and its copy is the full object, so that the readers of a cache return that.
//
// Start with OfService and Expand.
package compact
