// Package report shows the results of benchmarks: as a table on a terminal, and as a section of docs/benchmarks.md,
// which is replaced between two markers while everything around it stays as people wrote it.
//
// Start with Section.
package report
