// Package bitmap_test runs the manager on Kubernetes 1.32, whose API server allocates ClusterIPs
// from a bitmap in etcd and writes no IPAddress, and then brings the same etcd under 1.37, whose
// API server expects one for each ClusterIP and repairs what it does not find.
//
// Start with the steps at the head of upgrade_test.go.
package bitmap_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestBitmap(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "bitmap", Label("all", "1.32"))
}
