// Package migrate has the commands of `kubectl clusterip migrate`. What they do is in
// controllers/migration, which the manager has a part of.
//
// It promises that no command writes before it has made sure that API server and etcd are of one
// cluster, and that what was written, or that nothing was, is told with the exit status.
//
// Start with New; connection.go says where a cluster is read from and written to.
package migrate
