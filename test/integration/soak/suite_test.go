// Package soak_test is the acceptance of steering under trouble, for hours if need be: random
// clients while processes are killed, a leader that dies in a full range, an update under load, and
// an hour in which nothing may grow. `make soak` runs it; `make test` only runs the tests of its
// judgement.
//
// -soak.duration says how long the chaos and that hour last. Everything random follows from
// Ginkgo's seed, which it prints and takes (-ginkgo.seed).
//
// Start with "Random clients".
package soak_test

import (
	"flag"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var duration = flag.Duration("soak.duration", 10*time.Minute, "how long random clients and faults go on")

func TestSoak(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "soak")
}
