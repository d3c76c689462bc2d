// Package dualstack_test makes a cluster without an operator dual-stack: `kubectl clusterip
// dual-stack` adds its Services' second family, while clients edit them and the command is killed.
//
// Start with dualstack_test.go.
package dualstack_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestDualStack(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	RunSpecs(t, "dualstack", Label("all"))
}
