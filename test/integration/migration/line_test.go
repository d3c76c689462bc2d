package migration_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// stretch leads to the server of a URL, whose answers come late, until the calling node ends.
func stretch(url string, delay time.Duration) *framework.Balancer {
	GinkgoHelper()
	line, err := framework.Stretch(url, 0, delay)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(line.Stop)
	return line
}
