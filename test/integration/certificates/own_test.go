package certificates_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/steering"
)

// soon is how long a replica may take to show what is in the Secret, hand-over to another authority included, on a busy machine.
const soon = 10 * time.Second

// Two replicas, with nothing mounted: what they know of their certificate they know from the API server.
var _ = Describe("Certificates of our own", Ordered, func() {
	var b *steering.Bed

	BeforeAll(func(ctx SpecContext) { b = steering.Start(ctx, steering.Options{Replicas: 2}) })

	It("are issued for the Service and for the names that were given", func(ctx SpecContext) {
		Eventually(allShow(ctx, b)).WithTimeout(soon).Should(Succeed())
		leaf := shown(b.Replicas()[0])
		for _, name := range []string{calledAs, "localhost"} {
			Expect(verify(leaf, b.Authorities(ctx), name)).To(Succeed(), name)
		}
		Expect(leaf.NotAfter).To(BeTemporally(">", time.Now().Add(300*24*time.Hour)))
	})

	It("speak TLS 1.2 or later, and HTTP/1.1, so that connections spread over the replicas", func() {
		address := b.Replicas()[0].WebhookAddress()
		_, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}) //nolint:gosec // it is refused
		Expect(err).To(MatchError(ContainSubstring("protocol version")))
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}) //nolint:gosec // it is looked at
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = connection.Close() }()
		Expect(connection.ConnectionState().NegotiatedProtocol).To(Equal("http/1.1"))
	})

	// Every call is on a new connection, so that each one shakes hands: with either certificate, and under either bundle.
	DescribeTable("are replaced while Services are created, and no call is lost", func(ctx SpecContext, spoil func(map[string][]byte)) {
		was := secret(ctx, b).Data
		before := len(distrusted(b))
		calls, stop := keepCalling(ctx, b)
		change(ctx, b, spoil)
		Eventually(func() bool {
			now := secret(ctx, b).Data
			return len(now[certKey]) > 0 && !bytes.Equal(now[certKey], was[certKey])
		}).WithTimeout(soon).Should(BeTrue(), "a new certificate")
		Eventually(allShow(ctx, b)).WithTimeout(soon).Should(Succeed())
		at := calls.Load()
		Eventually(calls.Load).WithTimeout(soon).Should(BeNumerically(">", at+20))
		stop()
		Expect(distrusted(b)[before:]).To(BeEmpty())
		Expect(verify(shown(b.Replicas()[0]), b.Authorities(ctx), calledAs)).To(Succeed())
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
		for _, bundle := range b.Authorities(ctx) {
			Expect(bytes.Count(bundle, []byte("BEGIN CERTIFICATE"))).To(Equal(2))
		}
	})

	It("come back when the Secret is deleted, and no call is lost", func(ctx SpecContext) {
		was, before := secret(ctx, b), len(distrusted(b))
		_, stop := keepCalling(ctx, b)
		Expect(b.Client().CoreV1().Secrets(steering.Namespace).Delete(ctx, steering.Secret, metav1.DeleteOptions{})).To(Succeed())
		Eventually(allShow(ctx, b)).WithTimeout(soon).Should(Succeed())
		stop()
		Expect(secret(ctx, b).UID).NotTo(Equal(was.UID))
		Expect(distrusted(b)[before:]).To(BeEmpty())
	})

	// An admin who applies the manifests again, or GitOps.
	It("stay trusted when the configurations are written anew", func(ctx SpecContext) {
		b.RemoveWebhooks(ctx)
		b.AddWebhooks(ctx)
		Expect(verify(shown(b.Replicas()[0]), b.Authorities(ctx), calledAs)).To(Succeed())
	})

	It("are replaced at once by replicas that start, if they have expired meanwhile", func(ctx SpecContext) {
		b.StopReplicas()
		change(ctx, b, expired)
		old := secret(ctx, b).Data[certKey]
		began := time.Now()
		b.StartReplicas(ctx)
		AddReportEntry("serving again after", time.Since(began).String())
		Expect(secret(ctx, b).Data[certKey]).NotTo(Equal(old))
		Expect(allShow(ctx, b)()).To(Succeed())
		Expect(steered(ctx, b)).To(BeTrue())
	})

	It("are replaced by replicas that start with other names", func(ctx SpecContext) {
		b.StopReplicas()
		change(ctx, b, func(data map[string][]byte) { maps.Copy(data, issued("localhost", 300*24*time.Hour)) })
		b.StartReplicas(ctx)
		Eventually(func() error { return verify(shown(b.Replicas()[0]), b.Authorities(ctx), calledAs) }).WithTimeout(soon).Should(Succeed())
	})

	// No permission, no certificate: the loops go on, and so do the webhooks with what they have.
	It("are no reason to end when they cannot be looked after", func(ctx SpecContext) {
		pids := []int{b.Replicas()[0].Pid(), b.Replicas()[1].Pid()}
		role := b.Client().RbacV1().Roles(steering.Namespace)
		Expect(role.Delete(ctx, "clusterip-operator-certificates", metav1.DeleteOptions{})).To(Succeed())
		change(ctx, b, expired)
		Consistently(func() bool { return steered(ctx, b) }).WithTimeout(8 * time.Second).WithPolling(time.Second).Should(BeTrue())
		for i, replica := range b.Replicas() {
			Expect(replica.Pid()).To(Equal(pids[i]))
			Expect(replica.Healthy(ctx, "/readyz")).To(Succeed())
		}
	})
})

// keepCalling creates Services in dry runs, each call of a webhook on a connection of its own, until it is stopped.
func keepCalling(ctx context.Context, b *steering.Bed) (calls *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	calls = &atomic.Int64{}
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			defer GinkgoRecover()
			for ctx.Err() == nil {
				b.Balancer.CloseIdle()
				_, err := b.Client().CoreV1().Services(cluster.Namespace).Create(ctx, framework.NewService(cluster.Namespace, "called"),
					metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				if ctx.Err() == nil {
					Expect(err).NotTo(HaveOccurred())
					calls.Add(1)
				}
			}
		})
	}
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); workers.Wait() }) }
	DeferCleanup(stop)
	return calls, stop
}

// distrusted are the calls that came to nothing because the API server and a replica did not agree on a certificate. A call on a connection
// that is closed at the same moment comes to nothing too: that is keepCalling's own doing.
func distrusted(b *steering.Bed) (lines []string) {
	GinkgoHelper()
	text, err := os.ReadFile(b.API.LogFile())
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "failing open") && (strings.Contains(line, "tls:") || strings.Contains(line, "x509:")) {
			lines = append(lines, line)
		}
	}
	return lines
}

// expired puts a certificate into a Secret that was good until a minute ago, of an authority that was so too.
func expired(data map[string][]byte) { maps.Copy(data, issued(calledAs, -time.Minute)) }

// issued is a Secret of another authority, for these names, good until then.
func issued(name string, until time.Duration, more ...string) map[string][]byte {
	GinkgoHelper()
	text, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{
		Host: name, AlternateDNS: more, MaxAge: time.Hour + until, // it began an hour ago
	})
	Expect(err).NotTo(HaveOccurred())
	chain, err := cert.ParseCertsPEM(text)
	Expect(err).NotTo(HaveOccurred())
	ca, err := cert.EncodeCertificates(chain[1])
	Expect(err).NotTo(HaveOccurred())
	return map[string][]byte{certKey: text, keyKey: key, authorityKey: ca}
}
