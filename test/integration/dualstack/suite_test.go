// Package dualstack_test lets a cluster become dual-stack with Services in it, and gives these their second family by `kubectl clusterip dual-stack`, while others edit them
// and the command is killed. The operator is not there: the command does not need it.
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
