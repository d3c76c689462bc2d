// Package batch is how commands change many objects of a cluster: from a plan in a file that an
// admin has read, some at a time, no faster than they are told, with progress on the way.
//
// The cluster is all that is remembered. Each write is guarded by what it was made for, and fails
// with ErrMoved if another writer has changed that. So a run can be ended at any moment, even by
// kill -9, and repeated.
//
// Start with Each. Load and Save keep plans in files; Guarded and Retry wait for an API server.
package batch
