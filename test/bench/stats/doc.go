// Package stats condenses repeated measurements into what a table shows: a middle and how far the others lie from it.
//
// Everything is a pure function of its input. Start with Sample.
package stats
