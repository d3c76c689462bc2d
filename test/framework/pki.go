package framework

import (
	"crypto"
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
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// pki is the trust of a control plane: one CA that signs servers and users, and the key that signs
// service account tokens. All its API servers share it, in time and side by side, so that a token
// or a kubeconfig is good for each.
type pki struct {
	dir string
	ca  *x509.Certificate
	key crypto.Signer
	pem []byte // the certificate of the CA
}

// The files of a pki that processes are pointed at.
const (
	caCert      = "ca.crt"
	caKey       = "ca.key"
	serverCert  = "server.crt"
	serverKey   = "server.key"
	accountsKey = "service-accounts.key"
	// What an API server shows to kubelets.
	kubeletClientCert = "kubelet-client.crt"
	kubeletClientKey  = "kubelet-client.key"
)

// openPKI loads the pki of a folder, or creates it, for servers on loopback and on these addresses.
func openPKI(dir string, addresses []netip.Addr) (*pki, error) {
	p := &pki{dir: dir}
	open := p.load
	if !isFile(p.path(caCert)) {
		open = func() error { return p.create(addresses) }
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
	certs, err := cert.ParseCertsPEM(p.pem)
	if err != nil {
		return err
	}
	key, err := keyutil.PrivateKeyFromFile(p.path(caKey))
	if err != nil {
		return err
	}
	p.ca, p.key = certs[0], key.(crypto.Signer)
	return nil
}

// create writes the CA's certificate last: it is the sign that the pki is whole.
func (p *pki) create(addresses []netip.Addr) (err error) {
	if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	if p.ca, err = cert.NewSelfSignedCACert(cert.Config{CommonName: "clusterip-operator-test-ca"}, p.key); err != nil {
		return err
	}
	certPEM, certErr := cert.EncodeCertificates(p.ca)
	keyPEM, keyErr := keyutil.MarshalPrivateKeyToPEM(p.key)
	accounts, accountsErr := keyutil.MakeEllipticPrivateKeyPEM()
	server, serverKeyPEM, serverErr := p.serverCert([]string{"kube-apiserver", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}, addresses...)
	client, clientKeyPEM, clientErr := p.userCert("kube-apiserver-kubelet-client", "system:masters")
	if err := errors.Join(certErr, keyErr, accountsErr, serverErr, clientErr); err != nil {
		return err
	}
	p.pem = certPEM
	return errors.Join(
		keyutil.WriteKey(p.path(caKey), keyPEM),
		keyutil.WriteKey(p.path(serverKey), serverKeyPEM),
		keyutil.WriteKey(p.path(accountsKey), accounts),
		keyutil.WriteKey(p.path(kubeletClientKey), clientKeyPEM),
		cert.WriteCert(p.path(kubeletClientCert), client),
		cert.WriteCert(p.path(serverCert), server),
		cert.WriteCert(p.path(caCert), p.pem),
	)
}

// userCert returns a client certificate and its key: the API server reads the user from the common
// name and its groups from the organisations.
func (p *pki) userCert(name string, groups ...string) (certPEM, keyPEM []byte, err error) {
	return p.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// serverCert returns a certificate for a server on loopback, addresses and names; the first is CN.
func (p *pki) serverCert(names []string, addresses ...netip.Addr) (certPEM, keyPEM []byte, err error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, IPAddresses: []net.IP{net.ParseIP(loopback)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, a := range addresses {
		template.IPAddresses = append(template.IPAddresses, a.AsSlice())
	}
	return p.issue(template)
}

// issue signs a certificate for a year, and an hour back, for tours that stay and clocks that step.
func (p *pki) issue(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.ca, key.Public(), p.key)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM, err
}
