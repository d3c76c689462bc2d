package upgrade_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// Exit statuses of the command.
const (
	done     = 0 // or clean
	findings = 1 // or not wholly done
	refused  = 2 // before anything was written
)

// environment is a cluster without our operator, with its etcd laid open.
type environment struct {
	*cluster.Cluster
	ranges string
	etcd   storage.Storage
}

// newEnvironment starts a cluster in a folder, which ends with the calling node.
func newEnvironment(ctx context.Context, ranges, dir string, server framework.Options) *environment {
	GinkgoHelper()
	server.Dir, server.ServiceClusterIPRange = dir, ranges
	s := &environment{ranges: ranges, Cluster: cluster.Start(ctx, cluster.Options{Options: server, WithoutOperator: true})}
	s.etcd = storage.Open(s.Etcd)
	return s
}

// restart brings the same data under another API server, or the same one again.
func (s *environment) restart(ctx context.Context, server framework.Options) {
	GinkgoHelper()
	server.ServiceClusterIPRange = s.ranges
	Expect(s.Restart(ctx, server)).To(Succeed())
}

// migrate runs `kubectl clusterip migrate` with the way to etcd, and wants a certain exit status.
func (s *environment) migrate(ctx context.Context, status int, args ...string) framework.PluginResult {
	GinkgoHelper()
	return s.plugin(ctx, status, framework.PluginOptions{Args: slices.Concat(args, s.EtcdArgs())})
}

// offline is migrate where no API server is configured.
func (s *environment) offline(ctx context.Context, status int, args ...string) framework.PluginResult {
	GinkgoHelper()
	return s.plugin(ctx, status, framework.PluginOptions{
		Kubeconfig: framework.NoKubeconfig, Args: slices.Concat(args, s.EtcdArgs(), []string{"--offline"}),
	})
}

// plugin runs the command. The report keeps what a success prints, as that is made for users.
func (s *environment) plugin(ctx context.Context, status int, options framework.PluginOptions) framework.PluginResult {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	options.Race, options.Args = true, append([]string{"migrate"}, options.Args...)
	result := suite.Must(s.RunPlugin(ctx, options))
	Expect(result.ExitCode).To(Equal(status), func() string { return fmt.Sprint(options.Args, "\n", shortened(result.String())) })
	Expect(result.Stderr).NotTo(ContainSubstring("panic:"), "which also ends with 2")
	if status == refused {
		Expect(strings.TrimSpace(result.Stderr)).NotTo(BeEmpty(), "a refusal has to say why")
	}
	AddReportEntry(strings.Join(options.Args, " "), shortened(result.String()), ReportEntryVisibilityFailureOrVerbose)
	return result
}

// shortened keeps the head and the end of what may list thousands of things.
func shortened(text string) string {
	const keep = 3000
	if len(text) <= 2*keep {
		return text
	}
	return text[:keep] + "\n[...]\n" + text[len(text)-keep:]
}

// watch starts `verify --watch` and waits until all is in step. It is killed with the calling node.
func (s *environment) watch(ctx context.Context, args ...string) *framework.Plugin {
	GinkgoHelper()
	plugin := suite.Must(s.StartPlugin(ctx, framework.PluginOptions{
		Race: true, Args: slices.Concat([]string{"migrate", "verify", "--watch"}, args, s.EtcdArgs()),
	}))
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			AddReportEntry("the end of verify --watch", plugin.LogTail(60))
		}
		Expect(plugin.Kill()).To(Succeed())
	})
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	Expect(plugin.WaitPrinted(ctx, "in step: ")).To(Succeed())
	return plugin
}

// check returns the report of `check -o json`.
func (s *environment) check(ctx context.Context, status int) migrate.Output {
	GinkgoHelper()
	return migrate.Decode(s.migrate(ctx, status, "check", "-o", "json").Stdout)
}

// complaints are words of the API server's log about the same. Not all of them come with an event.
var complaints = []string{
	"repairing", "may have leaked", "appears to have leaked", "appears to have been modified", "wrong reference", "please recreate",
	"was assigned to multiple", "unable to refresh the service IP block", "is not within",
}

// complaintsSince are the lines of the API server's log, from an offset on, that complain.
func (s *environment) complaintsSince(offset int64) (found []string) {
	GinkgoHelper()
	log := suite.Must(os.ReadFile(s.API.LogFile()))
	for line := range strings.Lines(string(log[offset:])) {
		if slices.ContainsFunc(complaints, func(words string) bool { return strings.Contains(line, words) }) {
			found = append(found, line)
		}
	}
	return found
}

// calm is for what is left once an API server is ready. It has done the repairs of its start: only
// their events, and one more look at each object as watches deliver it, are to come.
const calm = 5 * time.Second

// expectCalm wants the API server, started since the snapshot, to find nothing to repair, write no
// IPAddress, and change no ClusterIP.
func (s *environment) expectCalm(ctx context.Context, before snapshot) {
	GinkgoHelper()
	Consistently(func(g Gomega) {
		now := s.snapshot(ctx)
		g.Expect(now.repairsSince(before)).To(BeEmpty())
		g.Expect(s.complaintsSince(before.log)).To(BeEmpty())
		g.Expect(before.addresses.Changes(now.addresses)).To(BeEmpty(), "IPAddresses were written")
		g.Expect(now.clusterIPs()).To(Equal(before.clusterIPs()))
	}).WithTimeout(calm).WithPolling(2 * time.Second).Should(Succeed())
}

// expectNew wants new Services to get addresses of every family, which no Service has already.
func (s *environment) expectNew(ctx context.Context, name string, n int) []*corev1.Service {
	GinkgoHelper()
	before := s.snapshot(ctx).owners()
	services := s.CreateServices(ctx, n, framework.Numbered(cluster.Namespace, name, framework.PreferDualStack()))
	for _, service := range services {
		Expect(service.Spec.ClusterIPs).To(HaveLen(len(strings.Split(s.ranges, ","))), service.Name)
		for _, address := range service.Spec.ClusterIPs {
			Expect(before).NotTo(HaveKey(address), "%s was given the address of another Service", service.Name)
			before[address] = []string{service.Name}
		}
	}
	s.expectNoDuplicate(ctx)
	return services
}

func (s *environment) expectNoDuplicate(ctx context.Context) {
	GinkgoHelper()
	owners := s.snapshot(ctx).owners()
	maps.DeleteFunc(owners, func(_ string, some []string) bool { return len(some) == 1 })
	Expect(owners).To(BeEmpty(), "addresses with more than one Service")
}

// expectWhole wants just one IPAddress for each ClusterIP. The API server may write a moment late,
// and leaves an orphan of its own repair alone for a minute.
func (s *environment) expectWhole(ctx context.Context) {
	GinkgoHelper()
	Eventually(s.Breaches).WithArguments(ctx).WithTimeout(90 * time.Second).WithPolling(500 * time.Millisecond).Should(BeEmpty())
}
