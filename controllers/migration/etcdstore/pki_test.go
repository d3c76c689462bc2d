package etcdstore

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority is a CA of a test, which writes its certificate and those that it issues into a folder.
type authority struct {
	dir, name string
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
}

func newAuthority(dir, name string) *authority {
	a := &authority{dir: dir, name: name}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	a.cert, a.key = a.sign(template, template, nil, name)
	return a
}

// CA returns the file with the certificate of the authority.
func (a *authority) CA() string { return filepath.Join(a.dir, a.name+".crt") }

// issue writes a certificate for clients and for servers at 127.0.0.1, unless change makes another one of it, and returns its file and that
// of its key.
func (a *authority) issue(name string, change func(*x509.Certificate)) (cert, key string) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	template.NotAfter = time.Now().Add(time.Hour)
	if change != nil {
		change(template)
	}
	a.sign(template, a.cert, a.key, name)
	return filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")
}

// sign writes NAME.crt and NAME.key. Without a key to sign with, the certificate signs itself.
func (a *authority) sign(template, parent *x509.Certificate, signer *ecdsa.PrivateKey, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	if signer == nil {
		signer = key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-2 * time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	der := must(x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer))
	a.write(name+".crt", "CERTIFICATE", der)
	a.write(name+".key", "EC PRIVATE KEY", must(x509.MarshalECPrivateKey(key)))
	return must(x509.ParseCertificate(der)), key
}

func (a *authority) write(name, kind string, der []byte) {
	content := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(filepath.Join(a.dir, name), content, 0o600); err != nil {
		panic(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
