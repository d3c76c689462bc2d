// Package migration_test gives the commands of `kubectl clusterip migrate` the clusters that go wrong: bitmaps that are
// broken, encrypted or of somebody else, Services that share an address, IPAddresses that tell lies, servers that go away,
// and commands that are killed where it hurts. It knows the commands from outside alone. What they print is decoded into
// types of its own, and what they leave in etcd is read and written past every API server.
//
// Start with [environment], which is a cluster to be broken, and with the rule that every refusal is held to: environment.untouched.
package migration_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestMigration(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "migration", Label("all", "1.32"))
}
