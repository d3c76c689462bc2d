package framework

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPKISurvives(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	first, err := openPKI(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := openPKI(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.pem, second.pem) {
		t.Error("opening the certificates again has changed the CA")
	}

	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM(first.pem)
	certPEM, keyPEM, err := second.userCert("jane", "developers", "night-shift")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: trust, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Errorf("what the second one signs, the first one does not trust: %v", err)
	}
	got := append([]string{pair.Leaf.Subject.CommonName}, pair.Leaf.Subject.Organization...)
	if diff := cmp.Diff([]string{"jane", "developers", "night-shift"}, got); diff != "" {
		t.Errorf("subject (-want +got):\n%s", diff)
	}
}

func TestPKIThatIsDamaged(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{caCert, caKey} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("sand"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := openPKI(dir)
	wantErrorWith(t, err, dir, "not PEM")
}
