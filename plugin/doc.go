// Package plugin is the kubectl plugin: the command `kubectl clusterip` with all of its
// subcommands.
//
// It promises that a command line ends with an error that says what to do, or does what it says;
// what the exit status means is in package cli. Nothing here runs in a cluster but as a Job of an
// admin.
//
// Start with New. Commands lie in the packages below, in this order, in which later ones may import
// earlier ones: cli, view, migrate, check, health, inspect, bundle, renumber and dualstack,
// console.
package plugin
