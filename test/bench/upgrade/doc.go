// Package upgrade measures how a cluster leaves the bitmap: the first start of a new kube-apiserver
// on an old one's data, as they are and after `kubectl clusterip migrate run`; that command's
// speed, beside a loop that only creates the same IPAddresses; the commands' time and memory in the
// largest cluster; and each step on the way through all minor versions. A cluster is built once for
// each size and kept as a folder. All is measured on fresh copies, each with its own etcd.
//
// Start with Run; flip.go, walk.go and rate.go hold the measurements, subject.go the clusters.
package upgrade
