// Package upgrade_test takes whole clusters from the bitmap of Kubernetes 1.32 to the IPAddresses
// of 1.37 and back, with the commands of `kubectl clusterip migrate` in between, while Services
// come and go. It knows the commands from outside alone.
//
// A [stoppedCluster] is built once; specs play on copies. Repairs and writes of the API server are
// read from etcd: see [snapshot]. Start with the steps at the head of migration_test.go.
package upgrade_test

import (
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestUpgrade(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "upgrade", Label("long", "1.32"))
}

// storeroom keeps the stopped clusters of this run.
var storeroom string

var _ = BeforeSuite(func() {
	var err error
	storeroom, err = os.MkdirTemp("", "clusterip-operator-upgrade-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, storeroom)
})
