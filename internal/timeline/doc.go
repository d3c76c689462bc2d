// Package timeline notices that the storage of an API server has gone back in time, as etcd does
// that is restored from a snapshot without --bump-revision. A process that goes on would work with
// a state that was lost: its watches continue from revisions that mean something else by now, and
// the API server, which takes them for revisions to come, sends nothing until it has reached them,
// and no error.
//
// A [Guard] holds two facts about resource versions against what it is told: those of one resource
// only grow, and an API server answers a list, or a get, that names no version with what etcd has,
// whatever its own cache says. So a list of a resource that is older than the version from which a
// watch of it is to begin is proof, and so is a Lease that is older than it was. Versions of two
// resources are never compared: they may be kept in two etcds.
//
// What is lost in less time than it takes the storage to write as many revisions again goes
// unnoticed by a process that watches alone. One that also holds or follows a Lease notices all
// that was written to the Lease and lost.
package timeline
