package soak_test

import (
	"fmt"
	"strings"
)

// String is for the report.
func (c *clients) String() string {
	return fmt.Sprintf("creations: %s\nchanges: %s\ndeletions: %s", c.creations.String(), c.changes.String(), c.deletions.String())
}

// String is for the report.
func (f *faults) String() string {
	return fmt.Sprintf("replicas were killed %d times and started anew %d times, API servers restarted %d times, %d IPAddresses deleted",
		f.kills.Load(), f.starts.Load(), f.restarts.Load(), f.deleted.Load())
}

// String is for the report.
func (o outcome) String() string {
	lines := []string{fmt.Sprintf("%d creations, unsteered %v (%.2f %%), %d duplicates, failed open %v",
		o.creations, o.unsteered, 100*o.share(), len(o.duplicates), o.failedOpen)}
	for _, d := range o.duplicates {
		lines = append(lines, d.String())
	}
	return strings.Join(append(lines, o.unexcused...), "\n")
}
