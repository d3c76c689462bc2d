// Package history is who had each address, and when: the records of it, how they are written into
// ConfigMaps, and what is kept of them. Everything here is plain data; controllers/history feeds it
// and writes.
//
// A record is one Service that had one address for a time. Those of an address are in one ConfigMap
// of the operator's namespace, one of 64 (ShardOf). A line of it is a record, for people with grep:
//
//	10.96.0.7 shop/web 6f9c1d1e-... created 2026-11-28T10:28:26Z deleted 2026-11-28T11:02:10Z
//
// It promises that an address has so many former owners at most, that a ConfigMap never has more
// than 128 KiB, and that a namespace pays for its own churn: where room is short, the one with most
// records loses its oldest. So a tenant that creates and deletes Services over and over takes the
// place of no other tenant that has less than its share.
//
// Start with Ledger.
package history
