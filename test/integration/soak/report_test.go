package soak_test

import "fmt"

// String is for the report.
func (c *clients) String() string {
	return fmt.Sprintf("creations: %s\nchanges: %s\ndeletions: %s", c.creations.String(), c.changes.String(), c.deletions.String())
}

// String is for the report.
func (f *faults) String() string {
	return fmt.Sprintf("replicas were killed %d times and started anew %d times, API servers restarted %d times, %d IPAddresses deleted",
		f.kills.Load(), f.starts.Load(), f.restarts.Load(), f.deleted.Load())
}
