package badinput_test

import (
	"net"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// listening returns an address that accepts connections until the spec ends and never answers, as
// behind a firewall or on a frozen machine.
func listening() (address string) {
	GinkgoHelper()
	listener := suite.Must(net.Listen("tcp4", "127.0.0.1:0"))
	DeferCleanup(listener.Close)
	return listener.Addr().String()
}

// An API server may start late with the whole cluster, so the manager waits for it and says so; but
// a manager with a wrong address or credential must not look like one that works.
var _ = Describe("An API server that does not let the manager in", func() {
	// Three managers wait: for a port without a listener, for a silent one, and with a forged token.
	It("is waited for, and given up with its address and the remedy", Label("long"), func(ctx SpecContext) {
		nobody, silent := c.AdminConfig(), c.AdminConfig()
		nobody.Host = "https://127.0.0.1:9" // discard; another program may take a free port before the end
		silent.Host = "https://" + listening()
		stranger := &rest.Config{Host: c.URL(), TLSClientConfig: rest.TLSClientConfig{CAData: c.AdminConfig().CAData}, BearerToken: "forged"}

		untouched(ctx, func() {
			started, managers := time.Now(), map[string]*framework.Manager{}
			configs := map[string]*rest.Config{"connection refused": nobody, "timeout": silent, "Unauthorized": stranger}
			for cause, config := range configs {
				managers[cause] = suite.Manager(ctx, c.ControlPlane, framework.ManagerOptions{Kubeconfig: cluster.KubeconfigOf(config), NoWait: true})
			}
			for _, cause := range []string{"connection refused", "Unauthorized"} {
				Eventually(managers[cause].LogTail).WithArguments(50).Should(cluster.ContainAll("Waiting for the API server", cause))
			}
			for cause, manager := range managers {
				Eventually(manager.Done()).WithTimeout(50*time.Second).Should(BeClosed(), func() string { return "it still runs:\n" + manager.LogTail(5) })
				Expect(time.Since(started)).To(BeNumerically(">", 20*time.Second), "it hardly waited")
				Expect(manager.ExitCode()).To(Equal(couldNot))
				Expect(manager.LogTail(1)).To(cluster.ContainAll(configs[cause].Host, cause, "check that the address and the credentials are right"))
			}
		})
	})

	// The server comes up while the manager waits: nothing has to be restarted.
	It("is welcome when it comes late", func(ctx SpecContext) {
		Expect(c.API.Kill()).To(Succeed())
		manager := suite.Manager(ctx, c.ControlPlane, framework.ManagerOptions{NoWait: true})
		Eventually(manager.LogTail).WithArguments(50).Should(ContainSubstring("Waiting for the API server"))
		Expect(c.API.Start(ctx)).To(Succeed())
		Expect(manager.WaitReady(ctx)).To(Succeed())
	})

	It("is looked for in vain without a kubeconfig", func(ctx SpecContext) {
		output, status := run(ctx, c, framework.ManagerOptions{Args: []string{"--kubeconfig=/nonexistent/kubeconfig", "--leader-elect=false"}})
		Expect(status).To(Equal(couldNot), output)
		Expect(output).To(cluster.ContainAll("/nonexistent/kubeconfig", "--kubeconfig"))
	})
})

// Another program uses a port that the manager was given, as it often happens with host networking.
var _ = DescribeTable("A port that is taken ends the manager before it has written anything, with the flag as the remedy", func(ctx SpecContext, flag string) {
	busy := listening()
	untouched(ctx, func() {
		manager := suite.Manager(ctx, c.ControlPlane, framework.ManagerOptions{NoWait: true, Args: []string{flag + "=" + busy}})
		Eventually(manager.Done()).Should(BeClosed(), func() string { return "it still runs:\n" + manager.LogTail(5) })
		Expect(manager.ExitCode()).To(Equal(couldNot))
		Expect(manager.LogTail(1)).To(cluster.ContainAll(busy, "address already in use", flag))
	})
},
	Entry("of metrics", "--metrics-bind-address"),
	Entry("of health probes", "--health-probe-bind-address"),
)

var _ = It("Webhooks without the kind of policies are not served, which is told in one line, and all else is at work", func(ctx SpecContext) {
	manager := suite.Manager(ctx, c.ControlPlane, framework.ManagerOptions{Webhooks: true, Args: []string{"--namespace=" + cluster.Namespace}})
	Eventually(c.ServiceCIDR).WithArguments(ctx, "kubernetes").Should(HaveField("Finalizers", ContainElement(cluster.OurFinalizer)))
	_, err := net.Dial("tcp", manager.WebhookAddress())
	Expect(err).To(MatchError(ContainSubstring("connection refused")))
	Expect(manager.LogTail(1000)).To(ContainSubstring("apply config/crd"))
})

// Kubernetes 1.32 serves ServiceCIDR and IPAddress only if told to, and allocates from a bitmap
// whose range no client can read. Flags settle both, and the message has to name them.
var _ = It("An API server of Kubernetes 1.32 that lacks a setting is refused at once", Label("long"), func(ctx SpecContext) {
	options := framework.Options{Version: framework.V132, Args: []string{"--runtime-config=networking.k8s.io/v1beta1=false"}}
	old := cluster.Start(ctx, cluster.Options{Options: options, WithoutOperator: true})
	for _, command := range []string{"run", "cleanup"} {
		output, status := run(ctx, old, framework.ManagerOptions{Args: []string{command, "--leader-election-namespace=default"}})
		Expect(status).To(Equal(couldNot), output)
		Expect(output).To(cluster.ContainAll("does not serve", old.URL(), "--runtime-config=networking.k8s.io/v1beta1=true"))
		Expect(output).NotTo(ContainSubstring("credentials"), "they are right: the advice leads astray")
	}
	Expect(old.Restart(ctx, framework.Options{Version: framework.V132})).To(Succeed())
	output, status := run(ctx, old, framework.ManagerOptions{Args: []string{
		"--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0",
	}})
	Expect(status).To(Equal(couldNot), output)
	Expect(output).To(cluster.ContainAll("bitmap", "--service-cluster-ip-range"))
	Expect(old.Networking().ServiceCIDRs().List(ctx, metav1.ListOptions{})).To(HaveField("Items", BeEmpty()))
})
