package admission_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

const (
	// Keys of the Secret.
	certKey      = "tls.crt"
	keyKey       = "tls.key"
	authorityKey = "ca.crt"
	// calledAs is the name that the API server expects in the certificate of the webhooks' Service.
	calledAs = "clusterip-operator-webhook." + cluster.OperatorNamespace + ".svc"
)

// Two replicas with nothing mounted: each reads its certificate from the API server.
var _ = Describe("Certificates of our own", Label("long"), Ordered, func() {
	var c *cluster.Cluster

	BeforeAll(func(ctx SpecContext) { c = cluster.Start(ctx, cluster.Options{Installed: true, Replicas: 2}) })

	It("are issued for the Service and for the names that were given", func(ctx SpecContext) {
		Eventually(allShow).WithArguments(ctx, c).Should(Succeed())
		leaf := shown(c.Replicas()[0])
		for _, name := range []string{calledAs, "localhost"} {
			Expect(verify(leaf, c.Authorities(ctx), name)).To(Succeed(), name)
		}
		Expect(leaf.NotAfter).To(BeTemporally(">", time.Now().Add(300*24*time.Hour)))
	})

	It("speak TLS 1.2 or later, and HTTP/1.1, so that connections spread over the replicas", func() {
		address := c.Replicas()[0].WebhookAddress()
		old := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11} //nolint:gosec // it is refused
		_, err := tls.Dial("tcp", address, old)
		Expect(err).To(MatchError(ContainSubstring("protocol version")))
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}) //nolint:gosec // it is looked at
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = connection.Close() }()
		Expect(connection.ConnectionState().NegotiatedProtocol).To(Equal("http/1.1"))
	})

	// Each call is on a new connection and shakes hands: with either certificate, under either bundle.
	DescribeTable("are replaced while Services are created, and no call is lost", func(ctx SpecContext, spoil func(map[string][]byte)) {
		was := secret(ctx, c).Data
		before := len(distrusted(c))
		calls, stop := keepCalling(ctx, c)
		changeSecret(ctx, c, spoil)
		Eventually(func() []byte { return secret(ctx, c).Data[certKey] }).
			Should(And(Not(BeEmpty()), Not(Equal(was[certKey]))), "a new certificate")
		Eventually(allShow).WithArguments(ctx, c).Should(Succeed())
		at := calls.Load()
		Eventually(calls.Load).Should(BeNumerically(">", at+20))
		stop()
		Expect(distrusted(c)[before:]).To(BeEmpty())
		Expect(verify(shown(c.Replicas()[0]), c.Authorities(ctx), calledAs)).To(Succeed())
	},
		Entry("when the certificate is lost", func(data map[string][]byte) { delete(data, certKey) }),
		Entry("when its key is lost", func(data map[string][]byte) { delete(data, keyKey) }),
		Entry("when the CA is lost", func(data map[string][]byte) { delete(data, authorityKey) }),
		Entry("after somebody planted another", func(data map[string][]byte) {
			maps.Copy(data, issued(calledAs, 300*24*time.Hour, "localhost"))
		}),
		Entry("after somebody planted one that lacks a name", func(data map[string][]byte) { maps.Copy(data, issued(calledAs, 300*24*time.Hour)) }),
		Entry("after somebody planted an expired one", expired),
		Entry("after somebody planted junk", func(data map[string][]byte) {
			for key := range data {
				data[key] = []byte("junk")
			}
		}),
	)

	It("are trusted together with those of the authority before, and no others", func(ctx SpecContext) {
		for _, bundle := range c.Authorities(ctx) {
			Expect(bytes.Count(bundle, []byte("BEGIN CERTIFICATE"))).To(Equal(2))
		}
	})

	It("come back when the Secret is deleted, and no call is lost", func(ctx SpecContext) {
		was, before := secret(ctx, c), len(distrusted(c))
		_, stop := keepCalling(ctx, c)
		Expect(c.Client().CoreV1().Secrets(cluster.OperatorNamespace).Delete(ctx, cluster.CertificateSecret, metav1.DeleteOptions{})).To(Succeed())
		Eventually(allShow).WithArguments(ctx, c).Should(Succeed())
		stop()
		Expect(secret(ctx, c).UID).NotTo(Equal(was.UID))
		Expect(distrusted(c)[before:]).To(BeEmpty())
	})

	// An admin who applies the manifests again, or GitOps.
	It("stay trusted when the configurations are written anew", func(ctx SpecContext) {
		c.RemoveWebhooks(ctx)
		c.AddWebhooks(ctx)
		Expect(verify(shown(c.Replicas()[0]), c.Authorities(ctx), calledAs)).To(Succeed())
	})

	DescribeTable("are replaced at once by replicas that start", func(ctx SpecContext, spoil func(map[string][]byte)) {
		c.StopReplicas()
		changeSecret(ctx, c, spoil)
		old := secret(ctx, c).Data[certKey]
		c.StartReplicas(ctx)
		Eventually(func() string { return string(secret(ctx, c).Data[certKey]) }).ShouldNot(Equal(string(old)))
		Eventually(allShow).WithArguments(ctx, c).Should(Succeed()) // the old one too, as long as it is in the Secret
		Expect(verify(shown(c.Replicas()[0]), c.Authorities(ctx), calledAs)).To(Succeed())
	},
		Entry("if they have expired meanwhile", expired),
		Entry("with other names", func(data map[string][]byte) { maps.Copy(data, issued("localhost", 300*24*time.Hour)) }),
	)

	// No permission, no certificate: the loops go on, and so do the webhooks with what they have.
	It("are no reason to end when they cannot be looked after", func(ctx SpecContext) {
		pids := []int{c.Replicas()[0].Pid(), c.Replicas()[1].Pid()}
		role := c.Client().RbacV1().Roles(cluster.OperatorNamespace)
		Expect(role.Delete(ctx, "clusterip-operator-certificates", metav1.DeleteOptions{})).To(Succeed())
		changeSecret(ctx, c, expired)
		Eventually(func() string { return c.Replicas()[0].LogTail(200) + c.Replicas()[1].LogTail(200) }).
			Should(MatchRegexp(`"Reconciler error","controller":"webhook-certificate".*forbidden`), "it is tried")
		Expect(c.Asks(ctx)).To(BeTrue())
		for i, replica := range c.Replicas() {
			Expect(replica.Pid()).To(Equal(pids[i]))
			Expect(replica.Healthy(ctx, "/readyz")).To(Succeed())
		}
	})
})

// As with cert-manager, which writes the files after the manager starts, and renews them. A kubelet
// mounts them as links to a folder, which it replaces.
var _ = Describe("Certificates from files", Label("long"), func() {
	It("may come late, change and expire, and we neither ask for a Secret nor touch the webhook configurations", func(ctx SpecContext) {
		c := cluster.Start(ctx, cluster.Options{WithoutOperator: true})
		Expect(c.InstallCRDs(ctx)).To(Succeed())
		dir := filepath.Join(GinkgoT().TempDir(), "certificate")
		manager := suite.Manager(ctx, c.ControlPlane, framework.ManagerOptions{
			Race: true, Webhooks: true, NoWait: true, Args: []string{"--namespace=" + cluster.Namespace, "--webhook-cert-dir=" + dir},
		})
		By("doing everything else meanwhile, and not being ready")
		Eventually(c.ServiceCIDR).WithArguments(ctx, "kubernetes").Should(HaveField("Finalizers", ContainElement(cluster.OurFinalizer)))
		Eventually(manager.Healthy).WithArguments(ctx, "/healthz").Should(Succeed())
		Expect(manager.Healthy(ctx, "/readyz/webhook")).NotTo(Succeed())
		Expect(shown(manager)).To(BeNil())

		for i, life := range []time.Duration{24 * time.Hour, 48 * time.Hour} {
			mount(dir, issued(calledAs, life), i)
			Eventually(shown).WithArguments(manager).Should(And(Not(BeNil()), HaveField("NotAfter", BeTemporally("~", time.Now().Add(life), time.Minute))))
		}
		Expect(manager.WaitReady(ctx)).To(Succeed())
		Expect(c.Client().CoreV1().Secrets("").List(ctx, metav1.ListOptions{})).To(HaveField("Items", BeEmpty()))
		Expect(manager.LogTail(1000)).NotTo(ContainSubstring("webhook-certificate"))

		mount(dir, issued(calledAs, -time.Minute), 2)
		Eventually(manager.Healthy).WithArguments(ctx, "/readyz/webhook").ShouldNot(Succeed())
		Expect(manager.Healthy(ctx, "/healthz")).To(Succeed())
	})
})

// mount writes a Secret's files as a kubelet does: into their own folder, to which a link leads.
func mount(dir string, data map[string][]byte, generation int) {
	GinkgoHelper()
	folder := fmt.Sprintf("%s-data-%d", dir, generation)
	Expect(errors.Join(os.MkdirAll(dir, 0o700), os.MkdirAll(folder, 0o700))).To(Succeed())
	for _, name := range []string{certKey, keyKey} {
		Expect(os.WriteFile(filepath.Join(folder, name), data[name], 0o600)).To(Succeed())
		if generation == 0 {
			Expect(os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name))).To(Succeed())
		}
	}
	next := filepath.Join(dir, "..data_tmp")
	Expect(os.Symlink(folder, next)).To(Succeed())
	Expect(os.Rename(next, filepath.Join(dir, "..data"))).To(Succeed())
}

// shown is the certificate that a replica shows to a client that verifies nothing; nil for none.
func shown(replica *framework.Manager) *x509.Certificate {
	connection, err := tls.Dial("tcp", replica.WebhookAddress(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it is looked at
	if err != nil {
		return nil
	}
	defer func() { _ = connection.Close() }()
	return connection.ConnectionState().PeerCertificates[0]
}

// allShow returns nil if all replicas show the certificate that is in the Secret.
func allShow(ctx context.Context, c *cluster.Cluster) error {
	secret, err := c.Client().CoreV1().Secrets(cluster.OperatorNamespace).Get(ctx, cluster.CertificateSecret, metav1.GetOptions{})
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(secret.Data[certKey], secret.Data[keyKey])
	if err != nil {
		return err
	}
	for i, replica := range c.Replicas() {
		if leaf := shown(replica); leaf == nil || !leaf.Equal(pair.Leaf) {
			return fmt.Errorf("replica %d does not show what is in the Secret", i)
		}
	}
	return nil
}

func secret(ctx context.Context, c *cluster.Cluster) *corev1.Secret {
	GinkgoHelper()
	return suite.Must(c.Client().CoreV1().Secrets(cluster.OperatorNamespace).Get(ctx, cluster.CertificateSecret, metav1.GetOptions{}))
}

// changeSecret edits the Secret, and tries again when a replica has written it at the same time.
func changeSecret(ctx context.Context, c *cluster.Cluster, edit func(data map[string][]byte)) {
	GinkgoHelper()
	Eventually(func() error {
		s := secret(ctx, c)
		edit(s.Data)
		_, err := c.Client().CoreV1().Secrets(cluster.OperatorNamespace).Update(ctx, s, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
}

// verify returns nil if every webhook's caller would trust a certificate.
func verify(leaf *x509.Certificate, bundles [][]byte, name string) error {
	if leaf == nil {
		return errors.New("no certificate was shown")
	}
	for _, bundle := range bundles {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(bundle)
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name}); err != nil {
			return err
		}
	}
	return nil
}

// keepCalling creates Services in dry runs until it is stopped, each call on a new connection.
func keepCalling(ctx context.Context, c *cluster.Cluster) (calls *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	calls = &atomic.Int64{}
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			defer GinkgoRecover()
			for ctx.Err() == nil {
				c.Balancer.Cut()
				_, err := c.Client().CoreV1().Services(cluster.Namespace).Create(ctx, framework.NewService(cluster.Namespace, "called"),
					metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				if ctx.Err() == nil {
					Expect(err).NotTo(HaveOccurred())
					calls.Add(1)
				}
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		workers.Wait()
	})
	DeferCleanup(stop)
	return calls, stop
}

// distrusted are the calls that failed because the API server and a replica did not agree on a
// certificate. A call also fails if its connection is closed meanwhile: keepCalling causes that.
func distrusted(c *cluster.Cluster) (lines []string) {
	GinkgoHelper()
	text := suite.Must(os.ReadFile(c.API.LogFile()))
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "failing open") && (strings.Contains(line, "tls:") || strings.Contains(line, "x509:")) {
			lines = append(lines, line)
		}
	}
	return lines
}

// expired replaces the Secret's certificate and its authority by ones that expired a minute ago.
func expired(data map[string][]byte) { maps.Copy(data, issued(calledAs, -time.Minute, "localhost")) }

// issued is a Secret of another authority, for these names, good until then.
func issued(name string, until time.Duration, more ...string) map[string][]byte {
	GinkgoHelper()
	text, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{
		Host: name, AlternateDNS: more, MaxAge: time.Hour + until, // it began an hour ago
	})
	Expect(err).NotTo(HaveOccurred())
	chain := suite.Must(cert.ParseCertsPEM(text))
	ca := suite.Must(cert.EncodeCertificates(chain[1]))
	return map[string][]byte{certKey: text, keyKey: key, authorityKey: ca}
}
