// Package upgrade measures how a cluster leaves the bitmap: the first start of a new kube-apiserver on what an old one has left, as it is
// and after `kubectl clusterip migrate run`; how fast that writes, beside a loop that does nothing but create the same IPAddresses; and what
// the commands take of time and memory in the largest cluster; and what each step costs on the way through all minor versions.
//
// A cluster is built once for each size and kept as a folder. Whatever is measured, is measured on a fresh copy of it, with an etcd of its own.
//
// Start with Run; flip.go, walk.go and rate.go hold the measurements, subject.go the clusters that they are made on.
package upgrade
