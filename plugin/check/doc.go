// Package check looks for all that is wrong with addresses, ranges, policies, webhooks, and repairs
// what a report says: `kubectl clusterip check` and `repair`.
//
// It promises to find what the controllers find, by their functions, whether they run or not. Check
// changes nothing; repair does what the report says, if the API server still shows the same.
//
// Start with Look. report.go has the report, which is the format of a file, too.
package check
