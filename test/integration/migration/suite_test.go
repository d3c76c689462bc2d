// Package migration_test gives the commands of `kubectl clusterip migrate` clusters that go wrong:
// bitmaps that are broken, encrypted or foreign, Services that share an address, IPAddresses that
// lie, servers that go away, and commands that are killed. It knows the commands from outside
// alone, decodes their output into its own types, and reads and writes etcd past every API server.
//
// Start with [environment], a cluster to be broken, and with environment.untouched.
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
