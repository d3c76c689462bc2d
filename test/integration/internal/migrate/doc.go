// Package migrate is what the suites about `kubectl clusterip migrate` share: what the command prints, decoded into types of their own
// ([Decode]), and a cluster that knows where its API servers are ([Publish]).
package migrate
