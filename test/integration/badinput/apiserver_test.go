package badinput_test

import (
	"context"
	"net"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// kubeconfig writes how a manager of the spec connects.
func kubeconfig(config *rest.Config) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(framework.WriteKubeconfig(path, config)).To(Succeed())
	return path
}

// deaf listens without ever answering, as an address behind a firewall or a frozen machine does.
func deaf() (url string) {
	GinkgoHelper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	return "https://" + listener.Addr().String()
}

// ended waits for the end of a manager and returns how long that took.
func ended(manager *framework.Manager, started time.Time, within time.Duration) time.Duration {
	GinkgoHelper()
	Eventually(manager.Done()).WithTimeout(time.Until(started.Add(within))).Should(BeClosed(),
		func() string { return "it still runs:\n" + manager.LogTail(5) })
	return time.Since(started)
}

// An API server may be late at the start of a whole cluster, so the manager waits for it, saying so; but an address or a
// credential that is wrong must not look like a manager that works.
var _ = Describe("An API server that does not let the manager in", func() {
	// Three managers wait side by side: on a port where nobody listens, on one that never answers, and with a token that
	// nobody issued.
	It("is waited for, and given up with its address and the remedy", func(ctx SpecContext) {
		nobody := cp.AdminConfig()
		nobody.Host = "https://127.0.0.1:9" // discard; a free port may be somebody's before the end
		silent := cp.AdminConfig()
		silent.Host = deaf()
		stranger := &rest.Config{Host: cp.URL(), TLSClientConfig: rest.TLSClientConfig{CAData: cp.AdminConfig().CAData}, BearerToken: "forged"}

		untouched(ctx, func() {
			started, managers := time.Now(), map[string]*framework.Manager{}
			for cause, config := range map[string]*rest.Config{
				"connection refused": nobody, "timeout": silent, "Unauthorized": stranger,
			} {
				managers[cause] = suite.Manager(ctx, cp, framework.ManagerOptions{Kubeconfig: kubeconfig(config), NoWait: true})
				DeferCleanup(func() { Expect(managers[cause].Running()).To(BeFalse()) })
			}
			for _, cause := range []string{"connection refused", "Unauthorized"} {
				Eventually(managers[cause].LogTail, "10s").WithArguments(50).
					Should(And(ContainSubstring("Waiting for the API server"), ContainSubstring(cause)))
			}
			for cause, config := range map[string]*rest.Config{
				"connection refused": nobody, "timeout": silent, "Unauthorized": stranger,
			} {
				manager := managers[cause]
				Expect(ended(manager, started, 50*time.Second)).To(BeNumerically(">", 20*time.Second), "it hardly waited")
				Expect(manager.ExitCode()).To(Equal(couldNot))
				Expect(manager.LogTail(1)).To(And(ContainSubstring(config.Host), ContainSubstring(cause),
					ContainSubstring("check that the address and the credentials are right")))
			}
		})
	})

	// The server comes up while the manager waits: nothing has to be restarted.
	It("is welcome when it comes late", func(ctx SpecContext) {
		Expect(cp.API.Kill()).To(Succeed())
		manager := suite.Manager(ctx, cp, framework.ManagerOptions{NoWait: true})
		Eventually(manager.LogTail, "10s").WithArguments(50).Should(ContainSubstring("Waiting for the API server"))
		Expect(cp.API.Start(ctx)).To(Succeed())
		Expect(manager.WaitReady(ctx)).To(Succeed())
	})

	It("is looked for in vain without a kubeconfig", func(ctx SpecContext) {
		output, status := run(ctx, cp, framework.ManagerOptions{Args: []string{"--kubeconfig=/nonexistent/kubeconfig", "--leader-elect=false"}})
		Expect(status).To(Equal(couldNot), output)
		Expect(output).To(And(ContainSubstring("/nonexistent/kubeconfig"), ContainSubstring("--kubeconfig")))
	})
})

// Kubernetes 1.32 serves ServiceCIDR and IPAddress only if it is told to, and allocates from a bitmap whose range no
// client can read. Both are settled on a command line, which the message has to name.
var _ = Describe("An API server of Kubernetes 1.32", Ordered, ContinueOnFailure, func() {
	var old *framework.ControlPlane
	options := framework.Options{Version: framework.V132}

	BeforeAll(func(ctx SpecContext) { old = suite.ControlPlane(ctx, options) })

	for _, command := range []string{"run", "cleanup"} {
		It("that does not serve the API is refused at once by "+command, func(ctx SpecContext) {
			without := options
			without.Args = []string{"--runtime-config=networking.k8s.io/v1beta1=false"}
			Expect(old.Restart(ctx, without)).To(Succeed())
			started := time.Now()
			output, status := run(ctx, old, framework.ManagerOptions{Args: []string{command, "--leader-election-namespace=default"}})
			Expect(status).To(Equal(couldNot), output)
			Expect(output).To(And(ContainSubstring("does not serve"), ContainSubstring(old.URL()),
				ContainSubstring("--runtime-config=networking.k8s.io/v1beta1=true")))
			Expect(output).NotTo(ContainSubstring("credentials"), "they are right: the advice leads astray")
			Expect(time.Since(started)).To(BeNumerically("<", 15*time.Second), "it will not change its mind: waiting is no use")
		})
	}

	It("that allocates from the bitmap is refused as long as its range is not told", func(ctx SpecContext) {
		Expect(old.Restart(ctx, options)).To(Succeed())
		output, status := run(ctx, old, framework.ManagerOptions{Args: []string{
			"--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0",
		}})
		Expect(status).To(Equal(couldNot), output)
		Expect(output).To(And(ContainSubstring("bitmap"), ContainSubstring("--service-cluster-ip-range")))
		left, err := old.Networking().ServiceCIDRs().List(context.WithoutCancel(ctx), everything)
		Expect(err).NotTo(HaveOccurred())
		Expect(left.Items).To(BeEmpty())
	})
})
