package renumber_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// inEach runs specs in each mode of the agent, one after the other on the same Services.
func inEach(what string, specs func(env *fixture), labels ...string) bool {
	for _, mode := range environment.Modes {
		Describe("With the agent, "+mode+", "+what, Ordered, environment.LabelsOf(environment.Modes, mode, what), Label(labels...), func() {
			env := new(fixture)
			BeforeAll(func(ctx SpecContext) {
				*env = *open(ctx, mode)
				env.StartAgent(ctx)
				env.runsInPod(ctx)
				env.makePlan(ctx, "agent")
				Eventually(func() int { return env.renumber(ctx, "run", "--from", env.plan, "--dry-run").ExitCode }).Should(Equal(1)) // 2 until the agent has counted connections
			})
			specs(env)
		})
	}
	return true
}

var _ = inEach("renumbering", func(env *fixture) {
	It("loses nothing when a run is ended halfway, rolled back, and done again to the end", Label("long"), func(ctx SpecContext) {
		old, all := env.inUse(ctx), env.use(ctx)
		half := env.start(ctx, "run")
		env.halfway(ctx, half, to...)
		Expect(half.Stop()).To(Succeed())
		env.complete(ctx, env.start(ctx, "rollback"))
		env.sameBut(ctx, from...)
		env.complete(ctx, env.start(ctx, "run"))
		env.sameBut(ctx, to...)
		all.goesOn()

		// Addresses are given up that no client uses, and the rest when their last clients have gone.
		drain := env.drain(ctx, "run")
		Eventually(env.held).WithArguments(ctx).Should(ConsistOf(old))
		Expect(drain.Running()).To(BeTrue())
		all.lostNothing(toOld, kept, flows)
		env.drained(ctx, drain, old)
		env.sameBut(ctx, to...)
		all.lostNothing(toNew, ports, lbs, keptOut)
	})
})

var _ = inEach("when something is killed", func(env *fixture) {
	It("loses nothing for the agent, which starts again in the middle", func(ctx SpecContext) {
		all := env.use(ctx)
		command := env.start(ctx, "run")
		env.halfway(ctx, command, to...)
		Expect(env.Agent.Kill()).To(Succeed())
		Expect(env.Agent.Start(ctx)).To(Succeed())
		By("the agent is back")
		env.complete(ctx, command)
		env.sameBut(ctx, to...)
		all.lostNothing()
	})

	It("loses nothing for the API server, on the way back", func(ctx SpecContext) {
		given, all := env.inUse(ctx), env.use(ctx)
		command := env.start(ctx, "rollback")
		env.halfway(ctx, command, from...)
		Expect(env.Cluster.API.Kill()).To(Succeed())
		Expect(env.Cluster.API.Start(ctx)).To(Succeed())
		env.complete(ctx, command)
		env.sameBut(ctx, from...)
		all.lostNothing()
		env.drained(ctx, env.drain(ctx, "rollback"), given)
	})
}, "soak")

// runsInPod writes what the API server needs to reach an installed agent: its DaemonSet, and a pod.
func (env *fixture) runsInPod(ctx context.Context) {
	GinkgoHelper()
	at := suite.Must(env.Node.Expose("127.0.0.1:10256"))
	labels := map[string]string{"app.kubernetes.io/name": "clusterip-operator", "app.kubernetes.io/component": "proxyagent"}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(int32(at.Port()))}}}
	spec := corev1.PodSpec{NodeName: env.Name, HostNetwork: true, Containers: []corev1.Container{{Name: "agent", Image: "agent", ReadinessProbe: probe,
		Ports: []corev1.ContainerPort{{ContainerPort: int32(at.Port())}}}}}
	sets, pods := cluster.Client().AppsV1().DaemonSets(metav1.NamespaceSystem), cluster.Client().CoreV1().Pods(metav1.NamespaceSystem)

	anywhere := *spec.DeepCopy()
	anywhere.NodeName = ""
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent", Labels: labels}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: anywhere},
	}}
	suite.Must(sets.Create(ctx, set, metav1.CreateOptions{}))
	pod := suite.Must(pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "agent", Labels: labels}, Spec: spec}, metav1.CreateOptions{}))
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: at.Addr().String(), PodIPs: []corev1.PodIP{{IP: at.Addr().String()}}}
	suite.Must(pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
	DeferCleanup(func(ctx SpecContext) {
		Expect(sets.Delete(ctx, "agent", metav1.DeleteOptions{})).To(Succeed())
		Expect(pods.Delete(ctx, "agent", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})).To(Succeed())
	})
}
