package webhook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
)

// Keys of the Secret, and names of the files that cert-manager mounts.
const certKey, keyKey, caKey = "tls.crt", "tls.key", "ca.crt"

// renewBefore its end a certificate is replaced.
const renewBefore = 90 * 24 * time.Hour

// pair is a certificate with its key. It is not changed once it is made.
type pair struct {
	certificate tls.Certificate
	// bundle holds the CAs in the Secret, and ca the one of them that issued the certificate, in PEM.
	bundle, ca []byte
}

// parse reads a Secret. An error says why no client would accept the certificate now.
func parse(data map[string][]byte, now time.Time) (*pair, error) {
	certificate, err := tls.X509KeyPair(data[certKey], data[keyKey])
	if err != nil {
		return nil, fmt.Errorf("reading certificate and key: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data[caKey]) {
		return nil, errors.New("there is no certificate of a CA")
	}
	chains, err := certificate.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now})
	if err != nil {
		return nil, fmt.Errorf("verifying the certificate: %w", err)
	}
	ca, err := cert.EncodeCertificates(chains[0][len(chains[0])-1])
	return &pair{certificate: certificate, bundle: data[caKey], ca: ca}, err
}

// issue returns a Secret with a new certificate for names, of a new CA whose key is thrown away. The CA of the certificate in use stays in it.
func issue(names []string, used *pair, now time.Time) (map[string][]byte, error) {
	text, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: names[0], AlternateDNS: names[1:]})
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate: %w", err)
	}
	chain, err := cert.ParseCertsPEM(text)
	if err != nil {
		return nil, fmt.Errorf("reading the new certificate: %w", err)
	}
	ca, err := cert.EncodeCertificates(chain[len(chain)-1])
	return map[string][]byte{certKey: text, keyKey: key, caKey: join(ca, used, now)}, err
}

// join adds the CA of the certificate in use to a bundle, so that clients trust both.
func join(bundle []byte, used *pair, now time.Time) []byte {
	if used.expired(now) || bytes.Contains(bundle, used.ca) {
		return bundle
	}
	return slices.Concat(bundle, used.ca)
}

// due says why a certificate is to be replaced; empty if it is not.
func (p *pair) due(names []string, now time.Time) string {
	for _, name := range names {
		if p.leaf().VerifyHostname(name) != nil {
			return "it lacks the name " + name
		}
	}
	if now.Add(renewBefore).After(p.leaf().NotAfter) {
		return "it ends soon"
	}
	return ""
}

func (p *pair) leaf() *x509.Certificate { return p.certificate.Leaf }

// sameAs reports whether a client sees the same certificate. No pair at all is not the same.
func (p *pair) sameAs(other *pair) bool { return p != nil && p.leaf().Equal(other.leaf()) }

// expired reports whether no client accepts the certificate any more. No pair at all has expired.
func (p *pair) expired(now time.Time) bool { return p == nil || now.After(p.leaf().NotAfter) }
