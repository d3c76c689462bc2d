// Package timeline notices that the storage of an API server has gone back in time, as an etcd does
// that is restored from a snapshot without --bump-revision. A process that goes on would work with
// a lost state: its watches continue from revisions that mean something else by now. The API server
// takes them for future ones, and until it reaches them it sends nothing, not even an error.
//
// A [Guard] holds two facts about resource versions against what it is told. Those of one resource
// only grow. And an API server answers a list or get that names no version with what etcd has,
// whatever its own cache says. So a resource list older than the version from which a watch of it
// is to begin is proof, and so is a Lease older than it was. Versions of two resources are never
// compared: they may be kept in two etcds.
//
// A process that only watches does not notice what is lost in less time than the storage takes to
// write as many revisions again. One that also holds or follows a Lease notices all that was
// written to the Lease and lost.
package timeline
