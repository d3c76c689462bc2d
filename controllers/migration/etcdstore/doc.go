// Package etcdstore is a [migration.Store] on etcd, where the API server keeps its objects. It is the only package of the
// project that speaks to etcd, and it exists because the legacy allocator's bitmaps are in no API. Begin with [Open].
//
//   - Nothing is written but by [Store.Commit], and each write of it is guarded by the revision that its key must have.
//   - An answer that gets lost on its way is not taken for a refusal: Commit finds out whether it was its own write that
//     changed the keys.
//   - While etcd is away, all methods wait and ask again, with back-off, until their context ends, Open for ten seconds. They log
//     once, with the logger of their context, whom they wait for.
//   - What cannot be decoded is a Value with Err, never a failed List.
//
// An object looks as the API server's storage layer hands it out: its resourceVersion is the ModRevision of its key, and nothing is
// defaulted: a Service that was last written by Kubernetes 1.19 or older has a clusterIP and no clusterIPs. Kind is empty.
package etcdstore
