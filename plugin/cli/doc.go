// Package cli has what all commands share: flags that name a cluster, the connection to it, lists
// in every format of -o, exit statuses, and progress of what takes long.
//
// It promises that nothing of what it prints steers a terminal, that errors about permissions say
// what is missing, and that a command reads the cluster at most once (Cluster.View).
//
// Start with Session, which is one command line; Open connects it to a Cluster.
package cli
