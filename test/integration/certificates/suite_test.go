// Package certificates_test takes the certificate of the webhooks away from the operator, plants expired ones and others' authorities, and
// wants the API server to be answered all the same: by every replica, and with no call lost that could have been answered.
//
// Start with "Certificates of our own".
package certificates_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/steering"
)

func TestCertificates(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "certificates", Label("all"))
}

// Keys of the Secret.
const (
	certKey      = "tls.crt"
	keyKey       = "tls.key"
	authorityKey = "ca.crt"
)

// calledAs is what the API server expects in a certificate when it calls the Service of the webhooks.
const calledAs = "clusterip-operator-webhook." + steering.Namespace + ".svc"

// shown is the certificate that a replica shows to somebody who trusts everybody, nil if it shows none.
func shown(replica *framework.Manager) *x509.Certificate {
	connection, err := tls.Dial("tcp", replica.WebhookAddress(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it is looked at
	if err != nil {
		return nil
	}
	defer func() { _ = connection.Close() }()
	return connection.ConnectionState().PeerCertificates[0]
}

// allShow reports whether all replicas show the certificate that is in the Secret.
func allShow(ctx context.Context, b *steering.Bed) func() error {
	return func() error {
		secret, err := b.Client().CoreV1().Secrets(steering.Namespace).Get(ctx, steering.Secret, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pair, err := tls.X509KeyPair(secret.Data[certKey], secret.Data[keyKey])
		if err != nil {
			return err
		}
		for i, replica := range b.Replicas() {
			if leaf := shown(replica); leaf == nil || !leaf.Equal(pair.Leaf) {
				return fmt.Errorf("replica %d does not show what is in the Secret", i)
			}
		}
		return nil
	}
}

func secret(ctx context.Context, b *steering.Bed) *corev1.Secret {
	GinkgoHelper()
	s, err := b.Client().CoreV1().Secrets(steering.Namespace).Get(ctx, steering.Secret, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return s
}

// change edits the Secret, which others may do at the same time.
func change(ctx context.Context, b *steering.Bed, edit func(data map[string][]byte)) {
	GinkgoHelper()
	Eventually(func() error {
		s := secret(ctx, b)
		edit(s.Data)
		_, err := b.Client().CoreV1().Secrets(steering.Namespace).Update(ctx, s, metav1.UpdateOptions{})
		return err
	}).WithTimeout(cluster.Patience).Should(Succeed())
}

// verify returns nil if every webhook's caller would trust a certificate. None is trusted by nobody.
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

// steered creates a Service in a dry run and reports whether a replica was asked about it.
func steered(ctx context.Context, b *steering.Bed) bool {
	GinkgoHelper()
	before := b.Decisions(ctx)
	_, err := b.Client().CoreV1().Services(cluster.Namespace).Create(ctx, framework.NewService(cluster.Namespace, "tried"),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	Expect(err).NotTo(HaveOccurred())
	return b.Decisions(ctx) > before
}

// all selects everything.
var all = metav1.ListOptions{}

// busyAddress is one on which somebody listens until the spec ends.
func busyAddress() string {
	GinkgoHelper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	return listener.Addr().String()
}
