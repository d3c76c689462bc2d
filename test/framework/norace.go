//go:build !race

package framework

// detectsRaces is whether the tests were built with the race detector.
const detectsRaces = false
