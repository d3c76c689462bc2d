package etcdstore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigRefuses(t *testing.T) {
	dir := t.TempDir()
	ca := newAuthority(dir, "ca")
	cert, key := ca.issue("client", nil)
	_, otherKey := ca.issue("other", nil)
	noise := filepath.Join(dir, "noise")
	if err := os.WriteFile(noise, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := []string{"https://127.0.0.1:2379"}
	for name, tc := range map[string]struct {
		config Config
		want   []string // in this order, and one line each
	}{
		"all good":            {Config{Endpoints: good, CAFile: ca.CA(), CertFile: cert, KeyFile: key}, nil},
		"CA of the system":    {Config{Endpoints: good, CertFile: cert, KeyFile: key}, nil},
		"without TLS":         {Config{Endpoints: []string{"http://localhost:2379", "http://[::1]:2379/"}}, nil},
		"TLS files for http":  {Config{Endpoints: []string{"http://localhost:2379"}, CAFile: ca.CA()}, nil}, // kube-apiserver lets it pass
		"no endpoints":        {Config{}, []string{"no etcd is named: give --etcd-servers"}},
		"no scheme":           {Config{Endpoints: []string{"127.0.0.1:2379"}}, []string{`"127.0.0.1:2379" (--etcd-servers) is not of the form https://HOST:PORT`}},
		"no port":             {Config{Endpoints: []string{"https://etcd"}}, []string{`"https://etcd" (--etcd-servers) is not`}},
		"no host":             {Config{Endpoints: []string{"https://:2379"}}, []string{`"https://:2379" (--etcd-servers) is not`}},
		"unix socket":         {Config{Endpoints: []string{"unix:///run/etcd.sock"}}, []string{`"unix:///run/etcd.sock" (--etcd-servers) is not`}},
		"empty endpoint":      {Config{Endpoints: []string{"https://a:1", ""}}, []string{`"" (--etcd-servers) is not`}},
		"mixed schemes":       {Config{Endpoints: []string{"https://a:1", "http://b:1"}}, []string{"https://a:1,http://b:1 (--etcd-servers) mix http and https"}},
		"no such CA":          {Config{Endpoints: good, CAFile: "/no/ca"}, []string{"reading the CA of etcd (--etcd-cafile): open /no/ca: no such file"}},
		"CA without PEM":      {Config{Endpoints: good, CAFile: noise}, []string{noise + " holds no certificate in PEM"}},
		"certificate alone":   {Config{Endpoints: good, CertFile: cert}, []string{"add --etcd-keyfile"}},
		"key alone":           {Config{Endpoints: good, KeyFile: key}, []string{"add --etcd-certfile"}},
		"no such certificate": {Config{Endpoints: good, CertFile: "/no/cert", KeyFile: key}, []string{"(--etcd-certfile, --etcd-keyfile): open /no/cert"}},
		"key of another":      {Config{Endpoints: good, CertFile: cert, KeyFile: otherKey}, []string{"private key does not match public key"}},
		"everything": {Config{Endpoints: []string{"ftp://a:1", "https://b:1", "http://c:1"}, CAFile: noise, CertFile: cert}, []string{
			`"ftp://a:1"`, "mix http and https", "no certificate in PEM", "add --etcd-keyfile",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tc.config.validate()
			var got []string
			if err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if len(got) != len(tc.want) {
				t.Fatalf("complaints %q, want %q", got, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("complaint %q, want %q", got[i], want)
				}
			}
		})
	}
}
