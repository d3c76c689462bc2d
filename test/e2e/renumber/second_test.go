package renumber_test

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// few is how many Services are moved while all of them are in use all the time.
const few = 12

// endpointSliceController writes the slices of Services with a selector.
const endpointSliceController = "endpointslice-controller"

// openFew makes an Environment with Services of both families that select one pod of the node.
func openFew(ctx context.Context, mode string) *fixture {
	GinkgoHelper()
	DeferCleanup(withdraw)
	env := &fixture{Environment: environment.Open(ctx, cluster, mode)}
	Expect(env.Node.Sysctl(shortFlows)).To(Succeed())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "server", Labels: map[string]string{"app": "server"}},
		Spec:       corev1.PodSpec{NodeName: env.Name, Containers: []corev1.Container{{Name: "server", Image: "server"}}},
	}
	pods := cluster.Client().CoreV1().Pods(env.Name)
	pod = suite.Must(pods.Create(ctx, pod, metav1.CreateOptions{}))
	DeferCleanup(func(ctx SpecContext) error {
		return pods.Delete(ctx, "server", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	})
	pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for _, f := range network.Families {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: env.Pod2.Addr(f).String()})
	}
	pod.Status.PodIP = pod.Status.PodIPs[0].IP
	suite.Must(pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
	for i := range few {
		s := env.NewService(fmt.Sprintf("s-%03d", i), environment.BothProtocols)
		s.Spec.Selector = pod.Labels
		env.before = append(env.before, suite.Must(env.Services().Create(ctx, s, metav1.CreateOptions{})))
	}
	offerNew(ctx)
	env.plan = filepath.Join(GinkgoT().TempDir(), "plan.yaml")
	suite.Exits(0, env.renumber(ctx, "plan", "-n", env.Name, "--range=kubernetes", "--to=new", "--keep=service", "-o", env.plan))
	return env
}

// witness connects to addresses again and again, and notes whose connections the server saw.
type witness struct {
	end     context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex
	seen    int
	wrong   []string
}

func (env *fixture) watchSources() *witness {
	GinkgoHelper()
	ctx, end := context.WithCancel(context.Background())
	w := &witness{end: end}
	DeferCleanup(w.stop)
	for _, s := range env.before {
		for _, address := range s.Spec.ClusterIPs {
			vip := port80(netip.MustParseAddr(address))
			w.running.Go(func() {
				for ctx.Err() == nil {
					w.note(env.Pod1.Dial(network.Probe{To: vip, Timeout: 10 * time.Second}))
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
	}
	return w
}

func (w *witness) note(r network.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen++; r.Outcome != network.Connected || r.Source.Addr() != r.Client.Addr() {
		w.wrong = append(w.wrong, r.String())
	}
}

func (w *witness) stop() {
	w.end()
	w.running.Wait()
}

// useOld starts traffic to the addresses that the Services have now.
func (env *fixture) useOld() traffic {
	GinkgoHelper()
	all := traffic{toOld: environment.NewTraffic(), kept: environment.NewTraffic(), flows: environment.NewTraffic()}
	for i, s := range env.before {
		from := []*network.Namespace{env.Pod1, env.Node}[i%2]
		for _, address := range s.Spec.ClusterIPs {
			vip := port80(netip.MustParseAddr(address))
			environment.Reaches(from, vip)
			all[toOld].Connect(from, vip)
			all[kept].Stay(from, "tcp", vip, 1)
			all[flows].Stay(from, "udp", vip, 1)
		}
	}
	for _, t := range all {
		t.Flows()
	}
	return all
}

// secondServices counts them.
func (env *fixture) secondServices(ctx context.Context) int {
	GinkgoHelper()
	return len(suite.Must(env.Services().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelPurpose + "=" + v1alpha1.PurposeSecond})).Items)
}

// moves moves the Services there, back and there again, all the time in use at their old addresses.
func (env *fixture) moves(ctx context.Context) (traffic, *witness) {
	GinkgoHelper()
	all, sources := env.useOld(), env.watchSources()
	for _, verb := range []string{"run", "rollback", "run"} {
		By(verb)
		result := suite.Exits(1, env.renumber(ctx, verb, "--from", env.plan, "--wait=false", "--qps=0", "--workers=4"))
		Expect(result.Stdout).To(ContainSubstring(fmt.Sprintf("%d of %d Services have the addresses of the plan, 0 were left as they are", few, few)))
		Expect(env.secondServices(ctx)).To(Equal(2 * few))
		for _, t := range all {
			t.Flows()
		}
	}
	return all, sources
}

// judge expects nothing to be lost, and the server to have seen whose connections they were.
func (env *fixture) judge(what string, all traffic, sources *witness) {
	GinkgoHelper()
	sources.stop()
	all.lostNothing()
	lines := []string{fmt.Sprintf("connections of which the server saw the client's address: %d of %d", sources.seen-len(sources.wrong), sources.seen)}
	for _, kind := range []string{toOld, kept, flows} {
		lines = append(lines, all.counted(kind))
	}
	AddReportEntry(what, ReportEntryVisibilityAlways, strings.Join(lines, "\n"))
	Expect(sources.wrong).To(BeEmpty())
}

var _ = Describe("With --keep=service", Label("soak"), func() {
	for _, mode := range []string{"iptables", "nftables"} {
		It("loses nothing with kube-proxy, "+mode, func(ctx SpecContext) {
			env := openFew(ctx, "")
			proxy := suite.Must(cluster.StartKubeProxy(ctx, framework.KubeProxyOptions{Namespace: env.Node, Node: env.Name, Mode: mode}))
			DeferCleanup(func() error { return proxy.Stop() })
			all, sources := env.moves(ctx)
			env.judge("kube-proxy, "+mode, all, sources)
			suite.Exits(0, env.renumber(ctx, "run", "--from", env.plan, "--dns-ttl=0s", "--quiet=0s", "--drain=1ms"))
			Expect(env.secondServices(ctx)).To(BeZero())
		})
	}
	for _, mode := range environment.Modes {
		It("loses nothing with the agent, "+mode+", and second Services go when no client uses them", environment.LabelsOf(environment.Modes, mode, "keep=service"), func(ctx SpecContext) {
			env := openFew(ctx, mode)
			env.StartAgent(ctx)
			env.runsInPod(ctx)
			all, sources := env.moves(ctx)
			drain := env.drain(ctx, "run")
			Consistently(env.secondServices).WithArguments(ctx).WithTimeout(15 * time.Second).WithPolling(time.Second).Should(Equal(2 * few))
			Expect(drain.Running()).To(BeTrue())
			env.judge("the agent, "+mode, all, sources)
			Expect(drain.Wait(ctx)).To(BeZero(), drain.LogTail(20))
			Expect(env.secondServices(ctx)).To(BeZero())
		})
	}
})
