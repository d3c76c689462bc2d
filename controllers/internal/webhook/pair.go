package webhook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Keys of the Secret, and names of the files that cert-manager mounts.
const (
	certKey      = "tls.crt"
	keyKey       = "tls.key"
	authorityKey = "ca.crt"
)

// pair is a server certificate with its key, and the authority that issued it. It is not changed once it is made.
type pair struct {
	certificate tls.Certificate
	authority   *x509.Certificate
}

// parsePair reads what cert-controller writes. An authority that is handing over lies first, see bundle.
func parsePair(data map[string][]byte) (*pair, error) {
	certificate, err := tls.X509KeyPair(data[certKey], data[keyKey])
	if err != nil {
		return nil, fmt.Errorf("reading certificate and key: %w", err)
	}
	authority, err := parseAuthority(data[authorityKey])
	if err != nil {
		return nil, err
	}
	if err := certificate.Leaf.CheckSignatureFrom(authority); err != nil {
		return nil, fmt.Errorf("the certificate is of another authority: %w", err)
	}
	return &pair{certificate: certificate, authority: authority}, nil
}

// parseAuthority reads the first certificate of a text in PEM.
func parseAuthority(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("there is no certificate of an authority")
	}
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the authority: %w", err)
	}
	return authority, nil
}

// valid reports whether a client would accept p at a time.
func (p *pair) valid(at time.Time) bool {
	return p != nil && !expired(p.certificate.Leaf, at) && !expired(p.authority, at)
}

func expired(c *x509.Certificate, at time.Time) bool { return at.After(c.NotAfter) }

// sameAs reports whether both are the same certificate. Neither nor is not the same.
func (p *pair) sameAs(other *pair) bool {
	return p != nil && other != nil && bytes.Equal(p.certificate.Leaf.Raw, other.certificate.Leaf.Raw)
}

// covers reports whether the first certificate of a text in PEM carries all names.
func covers(text []byte, names []string) bool {
	leaf, err := parseAuthority(text)
	return err == nil && !slices.ContainsFunc(names, func(name string) bool { return leaf.VerifyHostname(name) != nil })
}

// bundle adds the authority in use to a new one, so that whoever trusts the result trusts the certificates of both. What has expired is
// left out, and nothing is added twice. text is returned as it is if it cannot be read.
func bundle(text []byte, inUse *x509.Certificate, now time.Time) []byte {
	next, err := parseAuthority(text)
	if err != nil || inUse == nil || inUse.Equal(next) || expired(inUse, now) {
		return text
	}
	return append(encode(next), encode(inUse)...)
}

func encode(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}
