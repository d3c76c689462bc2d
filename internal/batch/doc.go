// Package batch is how commands change many objects of a cluster: from a plan in a file that somebody has read, some at a time, no faster than
// they are told, with progress on the way.
//
// Nothing is remembered but what the cluster says. Each write is guarded by what it was made for, and a guard that does not hold is ErrMoved: somebody
// else was there. So a run can be ended at any moment, even by kill -9, and repeated.
//
// Start with Each. Load and Save keep plans in files; Guarded and Retry wait for an API server that is away.
package batch
