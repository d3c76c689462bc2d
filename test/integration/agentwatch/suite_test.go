// Package agentwatch_test follows real API servers with proxyagent/watch: what selectors select, how long lists and watches outlive an API
// server, and what the versions of IPAddress have in common can only be seen there.
//
// Start with changes_test.go.
package agentwatch_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestAgentWatch(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "agentwatch")
}

// soon is how long news may take on a machine that is busy. patience includes the half minute for which a watch may pause after failures.
const (
	soon     = 10 * time.Second
	patience = time.Minute
)

// namespace is where the specs' Services live.
const namespace = "default"
