// Package drift remembers what looked wrong, and since when, until it has lasted long enough.
//
// A healthy burst of creations looks like drift for a moment, because Services and IPAddresses
// arrive on two watches. So a finding is acted on and reported only when it is still there after a
// delay that fits its type; the caller then reads the API server itself before it writes.
//
// Start with Tracker.
package drift
