// Package etcdstore is a [migration.Store] on etcd, where the API server keeps its objects. No
// other package speaks to etcd. It exists because the bitmaps are in no API. Begin with [Open].
//
//   - Only [Store.Commit] writes; each write is guarded by the revision that its key must have.
//   - A lost answer is not taken for a refusal: Commit finds out whether it has changed the keys.
//   - While etcd is away, all methods wait and ask again, with back-off, until their context ends,
//     Open for ten seconds. They log once, with their context's logger, what they wait for.
//   - What cannot be decoded is a Value with Err, never a failed List.
//
// An object looks as the API server's storage layer hands it out: its resourceVersion is its key's
// ModRevision, and nothing is defaulted. A Service last written by Kubernetes 1.19 or older has a
// clusterIP and no clusterIPs. Kind is empty.
package etcdstore
