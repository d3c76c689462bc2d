// Package migration takes a cluster from legacy bitmaps to IPAddress objects (KEP-1880), and back.
//
// It models three records of the same addresses, which ought to agree and often do not:
//
//	bitmap in etcd  ranges/serviceips, ranges/secondaryserviceips  what 1.32 and older allocate from
//	Services        spec.clusterIPs                                what is in use, the truth
//	IPAddresses     one for each ClusterIP                         what 1.33 and later allocate from
//
// It promises that every write is guarded by what the plan saw, so that it can be interrupted and
// called again at any moment; that it destroys only what it found wrong twice; that Services are
// never changed; and that it writes nothing while there is something that it does not understand.
//
// Start with judge.go, which holds the rules about a single address, then plan.go, which is pure as
// well. Runner carries out a plan, Syncer follows events; etcdstore implements Store, the
// interface to etcd.
package migration
