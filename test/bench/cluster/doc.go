// Package cluster starts control planes with as many Services as a benchmark asks for.
//
// Services beyond the first are not created but written to etcd, as copies of one that the API server made, together
// with their IPAddresses: the API server needs longer for each further Service, up to hours for 50,000. What the
// API server then serves is what it would serve had it created them all.
//
// Start with Start and Cluster.Grow.
package cluster
