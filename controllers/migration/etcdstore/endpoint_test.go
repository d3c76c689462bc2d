package etcdstore

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.uber.org/zap"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// closedPort returns the URL of a port where no program listens.
func closedPort() string {
	GinkgoHelper()
	return fmt.Sprintf("http://127.0.0.1:%d", must(framework.FreePort()))
}

// unresponsive returns the URL of a server that accepts connections and says nothing.
func unresponsive() string {
	GinkgoHelper()
	listener := must(net.Listen("tcp4", "127.0.0.1:0"))
	DeferCleanup(listener.Close)
	return "http://" + listener.Addr().String()
}

var _ = Describe("opening", func() {
	It("names the endpoints where nobody answers, and waits no longer than its context", func(ctx SpecContext) {
		one, two, start := closedPort(), unresponsive(), time.Now()
		_, err := Open(within(ctx, time.Second), Config{Endpoints: []string{one, two}})
		Expect(time.Since(start)).To(BeNumerically("<", openTimeout))
		Expect(err).To(MatchError(ContainSubstring("connecting to etcd at " + one + "," + two + ":")))
		_, err = Open(within(ctx, 5*time.Second), Config{Endpoints: []string{one}}) // enough for a first attempt on a machine that stalls
		Expect(err).To(MatchError(ContainSubstring("connection refused")))
	})

	It("waits for an etcd that is just starting", func(ctx SpecContext) {
		etcd := startEtcd(ctx)
		Expect(etcd.Kill()).To(Succeed())
		time.AfterFunc(time.Second, func() {
			defer GinkgoRecover()
			Expect(etcd.Start(ctx)).To(Succeed())
		})
		openAt(ctx, etcd.URL())
	})

	It("is content with one endpoint of several, and goes on without the others", func(ctx SpecContext) {
		etcd := startEtcd(ctx)
		store := open(ctx, Config{Endpoints: []string{closedPort(), etcd.URL(), unresponsive()}})
		for i := range 20 {
			commit(within(ctx, 10*time.Second), store, raw(formatted(int64(i)), 0, "x"))
		}
	})
})

var _ = Describe("TLS", Ordered, func() {
	var (
		good Config // its certificate is that of etcd as well, and signs itself
		url  string
	)

	BeforeAll(func(ctx SpecContext) {
		info, err := transport.SelfCert(zap.NewNop(), GinkgoT().TempDir(), []string{"127.0.0.1:0"}, 1, x509.ExtKeyUsageClientAuth)
		Expect(err).NotTo(HaveOccurred())
		url = startSecureEtcd("--cert-file="+info.CertFile, "--key-file="+info.KeyFile, "--trusted-ca-file="+info.CertFile, "--client-cert-auth")
		good = Config{Endpoints: []string{url}, CAFile: info.CertFile, CertFile: info.CertFile, KeyFile: info.KeyFile}
	})

	It("reads, writes and watches with a client certificate", func(ctx SpecContext) {
		store := open(ctx, good)
		revision := commit(ctx, store, raw("a", 0, "1"))
		Expect(line(get(ctx, store, "a"))).To(Equal(fmt.Sprintf("a=1@%d", revision)))
		w := follow(ctx, store, "", 0)
		Eventually(w.Seen).Should(HaveLen(1))
	})

	DescribeTable("says what is wrong", func(ctx SpecContext, change func(*Config), want string) {
		config := good
		change(&config)
		_, err := Open(within(ctx, 5*time.Second), config)
		Expect(err).To(MatchError(And(ContainSubstring("connecting to etcd"), ContainSubstring(want))))
	},
		Entry("the CA of the system", func(c *Config) { c.CAFile = "" }, "unknown authority"),
		Entry("no client certificate", func(c *Config) { c.CertFile, c.KeyFile = "", "" }, "connecting to etcd at https://"),
		Entry("http", func(c *Config) { c.Endpoints = []string{"http" + url[len("https"):]} }, "connecting to etcd at http://"),
	)

	It("reads a renewed certificate with the next connection", func(ctx SpecContext) {
		cert := filepath.Join(GinkgoT().TempDir(), "cert")
		content := must(os.ReadFile(good.CertFile))
		Expect(os.WriteFile(cert, content, 0o600)).To(Succeed())
		p := newProxy(url)
		store := open(ctx, Config{Endpoints: []string{"https" + p.URL()[len("http"):]}, CAFile: good.CAFile, CertFile: cert, KeyFile: good.KeyFile})
		Expect(os.Remove(cert)).To(Succeed())
		p.Cut()
		_, err := store.Get(within(ctx, 5*time.Second), "a")
		Expect(err).To(MatchError(ContainSubstring(cert)))
		Expect(os.WriteFile(cert, content, 0o600)).To(Succeed())
		get(within(ctx, 30*time.Second), store, "a")
	})
})

// startSecureEtcd starts an etcd with TLS alone, which the framework does not need, and returns its
// URL. It ends with the calling node.
func startSecureEtcd(args ...string) string {
	GinkgoHelper()
	assets, dir := must(framework.Assets("etcd", "etcd")), GinkgoT().TempDir()
	url := fmt.Sprintf("https://127.0.0.1:%d", must(framework.FreePort()))
	etcd := exec.Command(filepath.Join(assets, "etcd"), append([]string{
		"--data-dir=" + filepath.Join(dir, "data"), "--log-outputs=" + filepath.Join(dir, "log"),
		"--listen-client-urls=" + url, "--advertise-client-urls=" + url, "--listen-peer-urls=http://127.0.0.1:0", "--unsafe-no-fsync",
	}, args...)...)
	Expect(etcd.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = etcd.Process.Kill()
		_ = etcd.Wait()
	})
	Eventually(func() error {
		connection, err := tls.Dial("tcp4", url[len("https://"):], &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			_ = connection.Close()
		}
		return err
	}, time.Minute).Should(Succeed())
	return url
}
