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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// proxy stands between a store and etcd and loses what it is told to lose, without closing a connection.
type proxy struct {
	listener net.Listener
	target   string
	// deaf loses what the store says, mute what etcd answers.
	deaf, mute atomic.Bool

	mu          sync.Mutex
	connections map[net.Conn]bool
}

// newProxy starts a proxy that ends with the calling node.
func newProxy(url string) *proxy {
	GinkgoHelper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	p := &proxy{listener: listener, target: url[strings.Index(url, "//")+2:], connections: map[net.Conn]bool{}}
	go p.serve()
	DeferCleanup(func() {
		_ = listener.Close()
		p.Cut()
	})
	return p
}

// URL returns where the store finds the proxy.
func (p *proxy) URL() string { return "http://" + p.listener.Addr().String() }

// Cut closes all connections. New ones are welcome.
func (p *proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.connections {
		_ = c.Close()
	}
}

// Open returns how many connections, of both sides, are open.
func (p *proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.connections)
}

// Heal forwards everything again, on new connections: the old ones have lost part of what was said.
func (p *proxy) Heal() {
	p.Cut()
	p.deaf.Store(false)
	p.mute.Store(false)
}

func (p *proxy) serve() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp4", p.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.keep(near, far)
		go p.forward(near, far, &p.deaf)
		go p.forward(far, near, &p.mute)
	}
}

func (p *proxy) keep(connections ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range connections {
		p.connections[c] = true
	}
}

func (p *proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.connections, c)
}

// forward copies one direction until one of the ends is closed, and closes both.
func (p *proxy) forward(from, to net.Conn, lose *atomic.Bool) {
	defer p.drop(from)
	defer p.drop(to)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if lose.Load() {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

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
