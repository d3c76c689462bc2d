// Package apiserver_test lets replicas meet at a real API server, with the permissions that they are installed with: one leaves, one dies,
// one is cut off, the API server goes away. What the API server cannot show, all orders of all events, package replicas tests on a model.
//
// Start with replicas_test.go.
package apiserver_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestReplicas(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "replicas", Label("all"))
}

const (
	// namespace is where the operator is installed.
	namespace = "clusterip-operator-system"
	// The times of the replicas, shorter than usual.
	duration, renew, settle = 7 * time.Second, 500 * time.Millisecond, time.Second
	// patience is for machines that are busy.
	patience = 30 * time.Second
)
