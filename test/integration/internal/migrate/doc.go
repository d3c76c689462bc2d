// Package migrate is what the suites about `kubectl clusterip migrate` share: types into which they
// [Decode] its output, and a cluster that knows where its API servers are ([Publish]).
package migrate
