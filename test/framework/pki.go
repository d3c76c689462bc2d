package framework

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pki is the trust of a control plane: one CA that signs servers and users, and the key that signs service
// account tokens. All API servers of a control plane share it, in time and side by side, so that a token
// or a kubeconfig is good for each.
type pki struct {
	dir string
	ca  *x509.Certificate
	key *ecdsa.PrivateKey
	pem []byte // the certificate of the CA
}

// The files of a pki that processes are pointed at.
const (
	caCert      = "ca.crt"
	caKey       = "ca.key"
	serverCert  = "server.crt"
	serverKey   = "server.key"
	accountsKey = "service-accounts.key"
)

// openPKI loads the pki of a folder, or creates it.
func openPKI(dir string) (*pki, error) {
	p := &pki{dir: dir}
	open := p.load
	if !isFile(p.path(caCert)) {
		open = p.create
	}
	if err := open(); err != nil {
		return nil, fmt.Errorf("opening the certificates in %s: %w", dir, err)
	}
	return p, nil
}

func (p *pki) path(name string) string { return filepath.Join(p.dir, name) }

func (p *pki) load() (err error) {
	if p.pem, err = os.ReadFile(p.path(caCert)); err != nil {
		return err
	}
	keyPEM, err := os.ReadFile(p.path(caKey))
	if err != nil {
		return err
	}
	certBlock, _ := pem.Decode(p.pem)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return errors.New("the CA is not PEM")
	}
	if p.ca, err = x509.ParseCertificate(certBlock.Bytes); err != nil {
		return err
	}
	p.key, err = x509.ParseECPrivateKey(keyBlock.Bytes)
	return err
}

// create writes the CA's certificate last: it is the sign that the pki is whole.
func (p *pki) create() error {
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	if err := p.createCA(); err != nil {
		return err
	}
	cert, key, err := p.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		IPAddresses: []net.IP{net.ParseIP(loopback)},
		DNSNames:    []string{"localhost", "kubernetes.default.svc"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	accounts, err := newKey()
	if err != nil {
		return err
	}
	return errors.Join(
		p.write(caKey, keyPEM(p.key)),
		p.write(serverCert, cert),
		p.write(serverKey, key),
		p.write(accountsKey, keyPEM(accounts)),
		p.write(caCert, p.pem),
	)
}

func (p *pki) createCA() (err error) {
	if p.key, err = newKey(); err != nil {
		return err
	}
	template := withValidity(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "clusterip-operator-test-ca"},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	})
	der, err := x509.CreateCertificate(rand.Reader, template, template, p.key.Public(), p.key)
	if err != nil {
		return err
	}
	p.pem = certPEM(der)
	p.ca, err = x509.ParseCertificate(der)
	return err
}

// userCert returns a client certificate and its key: the API server reads the user from the common name and
// its groups from the organisations.
func (p *pki) userCert(name string, groups ...string) (cert, key []byte, err error) {
	return p.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (p *pki) issue(template *x509.Certificate) (cert, key []byte, err error) {
	private, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, withValidity(template), p.ca, private.Public(), p.key)
	if err != nil {
		return nil, nil, err
	}
	return certPEM(der), keyPEM(private), nil
}

func (p *pki) write(name string, content []byte) error {
	return os.WriteFile(p.path(name), content, 0o600)
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// withValidity gives a certificate a serial number of its own and a life from an hour ago, for clocks that
// step, to a year from now, for tours that stay.
func withValidity(template *x509.Certificate) *x509.Certificate {
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().AddDate(1, 0, 0)
	return template
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyPEM(key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		panic(fmt.Sprintf("a P-256 key that this package made cannot be encoded: %v", err))
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}
