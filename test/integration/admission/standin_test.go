package admission_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
)

// standIn is a webhook server in the place of ours. It allows everything, after a delay, and remembers who asked for what.
type standIn struct {
	*httptest.Server
	delay time.Duration

	mu   sync.Mutex
	seen []seen
}

// seen is one request of an API server.
type seen struct{ User, Operation, Resource, Name string }

// startStandIn starts a stand-in that ends with the calling node.
func startStandIn(delay time.Duration) *standIn {
	GinkgoHelper()
	s := &standIn{delay: delay}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(s.answer))
	DeferCleanup(func() {
		s.CloseClientConnections() // an API server that gave up does not keep us waiting
		s.Close()
	})
	return s
}

func (s *standIn) answer(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no AdmissionReview", http.StatusBadRequest)
		return
	}
	q := review.Request
	s.mu.Lock()
	s.seen = append(s.seen, seen{q.UserInfo.Username, string(q.Operation), q.Resource.Resource, q.Name})
	s.mu.Unlock()
	select {
	case <-time.After(s.delay):
	case <-r.Context().Done():
	}
	review.Request, review.Response = nil, &admissionv1.AdmissionResponse{UID: q.UID, Allowed: true}
	_ = json.NewEncoder(w).Encode(review) // whoever asked may have gone
}

// Seen returns what was asked so far.
func (s *standIn) Seen() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen{}, s.seen...)
}

// CABundle is what a webhook configuration needs to trust the stand-in.
func (s *standIn) CABundle() []byte { return certificatePEM(s.Certificate().Raw) }

// certificates are what our Secret holds.
type certificates struct{ CA, CAKey, Cert, Key []byte }

// expiredCertificates were good for a year until yesterday.
func expiredCertificates(names ...string) certificates {
	GinkgoHelper()
	ca, caKey := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "expired-ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, nil, nil)
	cert, key := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, caKey)
	return certificates{CA: certificatePEM(ca.Raw), CAKey: keyPEM(caKey), Cert: certificatePEM(cert.Raw), Key: keyPEM(key)}
}

// sign issues a certificate that has expired, signed by a CA or by itself.
func sign(template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().AddDate(-1, 0, -1), time.Now().AddDate(0, 0, -1)
	if ca == nil {
		ca, caKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	Expect(err).NotTo(HaveOccurred())
	cert, err := x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	return cert, key
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyPEM(key *ecdsa.PrivateKey) []byte {
	GinkgoHelper()
	der, err := x509.MarshalECPrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// The stand-ins have to be what they claim, or the specs that use them prove nothing.
var _ = Describe("The certificates that are planted", func() {
	It("fit together, and have expired", func() {
		planted := expiredCertificates("localhost")
		_, err := tls.X509KeyPair(planted.Cert, planted.Key)
		Expect(err).NotTo(HaveOccurred())
		block, _ := pem.Decode(planted.Cert)
		cert, err := x509.ParseCertificate(block.Bytes)
		Expect(err).NotTo(HaveOccurred())
		roots := x509.NewCertPool()
		Expect(roots.AppendCertsFromPEM(planted.CA)).To(BeTrue())

		_, err = cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost", CurrentTime: time.Now().AddDate(0, -6, 0)})
		Expect(err).NotTo(HaveOccurred(), "half a year ago they were good")
		_, err = cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost"})
		Expect(err).To(MatchError(ContainSubstring("expired")))
	})
})
