// Package coexistence_test runs kube-controller-manager's service-cidr-controller beside our manager, as every cluster
// does from which nobody took it away: the same ServiceCIDRs, the same finalizer, the same condition.
//
// Start with "a quiet minute", the spec for which the others prepare.
package coexistence_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestCoexistence(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "coexistence", Label("all"))
}
