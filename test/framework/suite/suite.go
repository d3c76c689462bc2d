// Package suite ties the control planes of package framework to Ginkgo: what its functions start
// ends with the calling node (a spec, a BeforeEach, a BeforeSuite), and what does not start fails
// it. A failed spec's report has the log ends of what it started. Begin with [ControlPlane].
package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// shownLines is how much of a log a failed spec shows.
const shownLines = 40

// ControlPlane starts a control plane that ends with the calling node.
func ControlPlane(ctx context.Context, options framework.Options) *framework.ControlPlane {
	ginkgo.GinkgoHelper()
	cp, err := framework.Start(ctx, options)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(func() {
		showOnFailure(&cp.API.Process)
		gomega.Expect(cp.Stop()).To(gomega.Succeed())
	})
	return cp
}

// APIServer adds an API server that ends with the calling node.
func APIServer(ctx context.Context, cp *framework.ControlPlane, options framework.Options) *framework.APIServer {
	ginkgo.GinkgoHelper()
	api, err := cp.AddAPIServer(ctx, options)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	endWithNode(&api.Process)
	return api
}

// Manager starts our manager, which ends with the calling node. That node fails if the manager
// logged a panic, recovered or not, or a data race (which ManagerOptions.Race looks for).
func Manager(ctx context.Context, cp *framework.ControlPlane, options framework.ManagerOptions) *framework.Manager {
	ginkgo.GinkgoHelper()
	manager, err := cp.StartManager(ctx, options)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(func() { ExpectNoCrash(&manager.Process) })
	endWithNode(&manager.Process) // comes first: what is deferred last is done first
	return manager
}

// Must returns a value, and fails the calling node with the error if there is one.
func Must[T any](value T, err error) T {
	ginkgo.GinkgoHelper()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return value
}

// Exits expects a run of the plugin to end with a code, and returns what it left.
func Exits(code int, run framework.PluginResult) framework.PluginResult {
	ginkgo.GinkgoHelper()
	gomega.Expect(run.ExitCode).To(gomega.Equal(code), run.String())
	return run
}

// ExpectNoCrash expects that a process logged no panic, recovered or not, and no data race.
func ExpectNoCrash(process *framework.Process) {
	ginkgo.GinkgoHelper()
	log, err := os.ReadFile(process.LogFile())
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	gomega.Expect(crashes(string(log))).To(gomega.BeEmpty())
}

// maxCrash is how many lines of a log tell of one panic or data race, at most.
const maxCrash = 60

// crashes returns what a log says of panics and data races, with the stacks of where they were.
func crashes(log string) []string {
	var found []string
	lines := strings.Split(log, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "panic:") && !strings.Contains(line, "Observed a panic") && !strings.Contains(line, "WARNING: DATA RACE") {
			continue
		}
		if told := strings.Join(lines[i:min(i+maxCrash, len(lines))], "\n"); !endsTwice(told) {
			found = append(found, told)
		}
	}
	return found
}

// endsTwice reports whether a data race is that of controller-runtime 0.25, whose leader writes the
// time for a graceful end when it loses its Lease, while the manager that ends for another reason
// reads it. Either way the process ends.
func endsTwice(race string) bool {
	return strings.Contains(race, "controllerManager).engageStopProcedure()") && strings.Contains(race, "controllerManager).initLeaderElector.func")
}

// ControllerManager starts a kube-controller-manager with some controllers, until the node's end.
func ControllerManager(ctx context.Context, cp *framework.ControlPlane, controllers ...string) *framework.ControllerManager {
	ginkgo.GinkgoHelper()
	manager, err := cp.StartControllerManager(ctx, controllers...)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	endWithNode(&manager.Process)
	return manager
}

func endWithNode(process *framework.Process) {
	ginkgo.DeferCleanup(func() {
		showOnFailure(process)
		gomega.Expect(process.Stop()).To(gomega.Succeed())
	})
}

// showOnFailure also shows what ended with an error by itself: its absence may fail another spec.
func showOnFailure(process *framework.Process) {
	if ginkgo.CurrentSpecReport().Failed() || process.ExitCode() > 0 {
		// Figures, which are always shown, are kept with the results of soak.
		ginkgo.AddReportEntry(fmt.Sprintf("the end of %s", process.LogFile()), process.LogTail(shownLines), ginkgo.ReportEntryVisibilityFailureOrVerbose)
	}
}

// UnlessGone returns an object, nil if it was not found. Every other error fails the spec.
func UnlessGone[T any](object *T, err error) *T {
	ginkgo.GinkgoHelper()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return Must(object, err)
}

// Reports reads a file that Ginkgo has written with --json-report.
func Reports(file string) (suites []types.Report, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading a report: %w", err)
	}
	if err := json.Unmarshal(content, &suites); err != nil {
		return nil, fmt.Errorf("reading the report %s: %w", file, err)
	}
	return suites, nil
}
