// Sig-network runs the [sig-network] specs of Kubernetes' e2e suite, which judge Service proxies.
// It takes e2e.test's flags; if its name ends in .test, the ginkgo of its tool module runs it in
// parallel.
package main

import (
	"flag"
	"os"
	"testing"

	"k8s.io/kubernetes/test/e2e"
	// Specs.
	_ "k8s.io/kubernetes/test/e2e/common/network"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	// What the framework does before and after a spec.
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/metrics/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	_ "k8s.io/kubernetes/test/e2e/network"
	manifests "k8s.io/kubernetes/test/e2e/testing-manifests"
)

func main() {
	testing.Init() // ginkgo passes flags of test programs
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	testfiles.AddFileSource(manifests.GetE2ETestingManifestsFS())
	framework.AfterReadingAllFlags(&framework.TestContext)
	var t testing.T
	e2e.RunE2ETests(&t)
	if t.Failed() {
		os.Exit(1)
	}
}
