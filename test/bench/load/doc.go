// Package load calls a function from a number of workers and says how fast that went.
//
// Start with Load.
package load
