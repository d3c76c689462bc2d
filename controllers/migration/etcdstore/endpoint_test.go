package etcdstore

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// nobody returns the URL of a port where nobody listens. A socket that does not listen holds it, so that nobody else does either.
func nobody() string {
	GinkgoHelper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(syscall.Close, socket)
	syscall.CloseOnExec(socket)
	Expect(syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})).To(Succeed())
	bound, err := syscall.Getsockname(socket)
	Expect(err).NotTo(HaveOccurred())
	return fmt.Sprintf("http://127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
}

// silence returns the URL of somebody who accepts connections and says nothing.
func silence() string {
	GinkgoHelper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	return "http://" + listener.Addr().String()
}

var _ = Describe("opening", func() {
	It("joins all that is wrong before it looks for etcd", func(ctx SpecContext) {
		_, err := Open(ctx, Config{CAFile: "/no/ca", KeyFile: "/no/key"})
		Expect(err).To(MatchError(And(ContainSubstring("--etcd-servers"), ContainSubstring("/no/ca"), ContainSubstring("add --etcd-certfile"))))
	})

	It("names each endpoint where nobody answers, after ten seconds", func(ctx SpecContext) {
		one, two := nobody(), silence()
		start := time.Now()
		_, err := Open(ctx, Config{Endpoints: []string{one, two}})
		Expect(err).To(MatchError(And(
			ContainSubstring("connecting to etcd at "+one+":"), ContainSubstring("connection refused"),
			ContainSubstring("connecting to etcd at "+two+":"))))
		Expect(time.Since(start)).To(And(BeNumerically(">", 9*time.Second), BeNumerically("<", 15*time.Second)))
	})

	It("waits no longer than its context", func(ctx SpecContext) {
		start := time.Now()
		_, err := Open(within(ctx, time.Second), Config{Endpoints: []string{nobody()}})
		Expect(err).To(MatchError(ContainSubstring("connection refused")))
		Expect(time.Since(start)).To(BeNumerically("<", 5*time.Second))
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
		store := open(ctx, Config{Endpoints: []string{nobody(), etcd.URL(), silence()}})
		for i := range 20 {
			commit(within(ctx, 10*time.Second), store, raw(formatted(int64(i)), 0, "x"))
		}
	})

	It("does not mind a prefix under which there is nothing", func(ctx SpecContext) {
		store := open(ctx, Config{Endpoints: []string{startEtcd(ctx).URL()}, Prefix: "/nothing"})
		Expect(listed(ctx, store, "", 0)).To(BeEmpty())
	})
})

var _ = Describe("TLS", Ordered, func() {
	var (
		dir       string
		ca        *authority
		cert, key string
		url       string
		lax       string // asks for no client certificate
	)

	BeforeAll(func(ctx SpecContext) {
		dir = GinkgoT().TempDir()
		ca = newAuthority(dir, "ca")
		cert, key = ca.issue("client", nil)
		serverCert, serverKey := ca.issue("server", nil)
		url = startSecureEtcd("--cert-file="+serverCert, "--key-file="+serverKey, "--trusted-ca-file="+ca.CA(), "--client-cert-auth")
		lax = startSecureEtcd("--cert-file="+serverCert, "--key-file="+serverKey)
	})

	It("reads, writes and watches with a client certificate", func(ctx SpecContext) {
		store := open(ctx, Config{Endpoints: []string{url}, CAFile: ca.CA(), CertFile: cert, KeyFile: key})
		revision := commit(ctx, store, raw("a", 0, "1"))
		Expect(line(get(ctx, store, "a"))).To(Equal(fmt.Sprintf("a=1@%d", revision)))
		w := follow(ctx, store, "", 0)
		Eventually(w.Seen).Should(HaveLen(1))
	})

	It("needs no client certificate where etcd asks for none", func(ctx SpecContext) {
		open(ctx, Config{Endpoints: []string{lax}, CAFile: ca.CA()})
	})

	It("says at once what is wrong", func(ctx SpecContext) {
		other := newAuthority(dir, "other-ca")
		otherCert, otherKey := other.issue("stranger", nil)
		oldCert, oldKey := ca.issue("old", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) })
		elsewhere := startSecureEtcd(elsewhereArgs(ca)...)
		for name, tc := range map[string]struct {
			config Config
			want   []string
		}{
			"CA of the system": {Config{Endpoints: []string{url}, CertFile: cert, KeyFile: key},
				[]string{"unknown authority", "name the CA that signed the certificate of etcd with --etcd-cafile"}},
			"another CA": {Config{Endpoints: []string{url}, CAFile: other.CA(), CertFile: cert, KeyFile: key},
				[]string{"unknown authority", "--etcd-cafile"}},
			"no client certificate": {Config{Endpoints: []string{url}, CAFile: ca.CA()},
				[]string{"certificate required", "give --etcd-certfile and --etcd-keyfile"}},
			"certificate of a stranger": {Config{Endpoints: []string{url}, CAFile: ca.CA(), CertFile: otherCert, KeyFile: otherKey},
				[]string{"remote error: tls:", "--etcd-certfile must be signed by the CA that etcd trusts"}},
			"expired certificate": {Config{Endpoints: []string{url}, CAFile: ca.CA(), CertFile: oldCert, KeyFile: oldKey},
				[]string{"remote error: tls:", "and be valid"}},
			"certificate for another host": {Config{Endpoints: []string{elsewhere}, CAFile: ca.CA()},
				[]string{"certificate is valid for", "look at the certificate of etcd and at the name in --etcd-servers"}},
		} {
			By(name)
			start := time.Now()
			_, err := Open(ctx, tc.config)
			Expect(err).To(MatchError(ContainSubstring("connecting to etcd at " + tc.config.Endpoints[0])))
			for _, want := range tc.want {
				Expect(err).To(MatchError(ContainSubstring(want)))
			}
			Expect(time.Since(start)).To(BeNumerically("<", 5*time.Second))
		}
	})

	It("says what may be wrong when http meets https, and the other way round", func(ctx SpecContext) {
		_, err := Open(within(ctx, 2*time.Second), Config{Endpoints: []string{"http" + url[len("https"):]}})
		Expect(err).To(MatchError(And(ContainSubstring("connecting to etcd at http://"), ContainSubstring("if etcd speaks TLS at this port, say https://"))))
		plain := startEtcd(ctx).URL()
		_, err = Open(within(ctx, 2*time.Second), Config{Endpoints: []string{"https" + plain[len("http"):]}})
		Expect(err).To(MatchError(And(ContainSubstring("connecting to etcd at https://"), ContainSubstring("if etcd speaks no TLS at this port, say http://"))))
	})

	It("reads a renewed certificate with the next connection", func(ctx SpecContext) {
		renewedCert, renewedKey := ca.issue("renewed", nil)
		p := newProxy(url)
		store := open(ctx, Config{Endpoints: []string{"https" + p.URL()[len("http"):]}, CAFile: ca.CA(), CertFile: renewedCert, KeyFile: renewedKey})
		Expect(os.Remove(renewedCert)).To(Succeed())
		p.Cut()
		_, err := store.Get(within(ctx, 2*time.Second), "a")
		Expect(err).To(MatchError(ContainSubstring("reading the certificate for etcd and its key (--etcd-certfile, --etcd-keyfile)")))
		ca.issue("renewed", nil)
		get(within(ctx, 30*time.Second), store, "a")
	})
})

// elsewhereArgs are those of an etcd whose certificate is for another host.
func elsewhereArgs(ca *authority) []string {
	cert, key := ca.issue("elsewhere", func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 2)} })
	return []string{"--cert-file=" + cert, "--key-file=" + key}
}

// startSecureEtcd starts an etcd that listens with TLS alone, which the framework has no use for, and returns its URL. It ends with the
// calling node.
func startSecureEtcd(args ...string) string {
	GinkgoHelper()
	for range 3 {
		if url, started := trySecureEtcd(args); started {
			return url
		}
	}
	Fail("etcd ends at once")
	return ""
}

// trySecureEtcd returns when somebody listens there, or etcd has ended: another program may have taken the port.
func trySecureEtcd(args []string) (url string, started bool) {
	GinkgoHelper()
	assets, err := framework.Assets("etcd", "etcd")
	Expect(err).NotTo(HaveOccurred())
	port, err := framework.FreePort()
	Expect(err).NotTo(HaveOccurred())
	dir := GinkgoT().TempDir()
	url = fmt.Sprintf("https://127.0.0.1:%d", port)
	etcd := exec.Command(filepath.Join(assets, "etcd"), append([]string{
		"--data-dir=" + filepath.Join(dir, "data"), "--log-outputs=" + filepath.Join(dir, "log"),
		"--listen-client-urls=" + url, "--advertise-client-urls=" + url, "--listen-peer-urls=http://127.0.0.1:0", "--unsafe-no-fsync",
	}, args...)...)
	Expect(etcd.Start()).To(Succeed())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = etcd.Wait()
	}()
	DeferCleanup(func() {
		_ = etcd.Process.Kill()
		<-ended
	})
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		select {
		case <-ended:
			return "", false
		default:
		}
		connection, err := tls.Dial("tcp4", url[len("https://"):], &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			_ = connection.Close()
			return url, true
		}
	}
	Fail("etcd does not listen")
	return "", false
}
