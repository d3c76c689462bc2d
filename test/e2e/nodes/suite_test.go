//go:build linux

// Package nodes_test deploys the operator and the node agent as their guides say, on a cluster whose nodes run real containerds and kubelets, and where the agent is the only Service
// proxy from the first boot on.
//
// Start with deployed_test.go.
package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// images are those of the product, a DNS server, and an application.
var images = []string{"manager", "proxyagent", "coredns", "demo"}

func TestMain(m *testing.M) {
	if err := errors.Join(cluster.Fetch(context.Background(), append(images, "kube-proxy")...), rememberNetwork()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	network.Isolate(m)
}

func TestNodes(t *testing.T) {
	network.NeedIsolation(t)
	RegisterFailHandler(Fail)
	RunSpecs(t, "nodes", Label("soak"))
}
