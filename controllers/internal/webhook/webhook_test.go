package webhook

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// authority issues certificates as cert-controller does.
type authority struct {
	rotator rotator.CertRotator
	ca      *rotator.KeyPairArtifacts
}

func newAuthority(t *testing.T, life time.Duration) *authority {
	t.Helper()
	a := &authority{rotator: rotator.CertRotator{
		CAName: "test-ca", DNSName: "webhook.home.svc", ExtraDNSNames: []string{"localhost"}, ExtKeyUsages: &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}}
	var err error
	if a.ca, err = a.rotator.CreateCACert(start, start.Add(life)); err != nil {
		t.Fatal(err)
	}
	return a
}

// data is a Secret with a certificate of the authority.
func (a *authority) data(t *testing.T, life time.Duration) map[string][]byte {
	t.Helper()
	cert, key, err := a.rotator.CreateCertPEM(a.ca, start, start.Add(life))
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{certKey: cert, keyKey: key, authorityKey: a.ca.CertPEM}
}

func (a *authority) pair(t *testing.T, life time.Duration) *pair {
	t.Helper()
	p, err := parsePair(a.data(t, life))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Which certificate is shown when a Secret changes: before the change, at once, and after the hand-over.
func TestServing(t *testing.T) {
	one, two := newAuthority(t, 100*day), newAuthority(t, 100*day)
	old, renewed, other, expired := one.pair(t, 10*day), one.pair(t, 20*day), two.pair(t, 20*day), two.pair(t, day)
	names := map[*pair]string{nil: "none", old: "old", renewed: "renewed", other: "other", expired: "expired"}
	type step struct {
		offer *pair
		after time.Duration // of start
		shown *pair         // right after the offer
	}
	for name, steps := range map[string][]step{
		"the first is shown at once":                   {{old, 0, old}},
		"none is shown before":                         {{nil, 0, nil}},
		"a renewed one of the same authority at once":  {{old, 0, old}, {renewed, time.Second, renewed}},
		"one of another authority after the hand-over": {{old, 0, old}, {other, time.Second, old}, {nil, 2 * time.Second, old}, {nil, 3 * time.Second, other}},
		"the hand-over is not put off by an event":     {{old, 0, old}, {other, 0, old}, {other, time.Second, old}, {nil, 2 * time.Second, other}},
		"the hand-over is called off":                  {{old, 0, old}, {other, 0, old}, {old, time.Second, old}, {nil, 9 * time.Second, old}},
		"one that has expired never":                   {{expired, 2 * day, nil}, {old, 2 * day, old}, {expired, 2 * day, old}},
		"at once if the one in use has expired":        {{expired, 0, expired}, {old, 2 * day, old}},
		"sooner if the one in use expires meanwhile":   {{expired, day - time.Second, expired}, {old, day - time.Second, expired}, {nil, day + 500*time.Millisecond, old}},
		"an expired one stays while there is no other": {{expired, 0, expired}, {nil, 2 * day, expired}},
	} {
		t.Run(name, func(t *testing.T) {
			var s serving
			for i, step := range steps {
				now := start.Add(step.after)
				if step.offer != nil {
					s.offer(step.offer, now)
				}
				_, _ = s.at(now)
				if s.current != step.shown {
					t.Errorf("step %d: %s is shown, want %s", i, names[s.current], names[step.shown])
				}
			}
		})
	}
}

func TestServingNothingIsAnError(t *testing.T) {
	var s serving
	if c, err := s.at(start); err == nil || c != nil || s.authority() != nil {
		t.Errorf("without a certificate: %v, %v", c, err)
	}
}

func TestParsePairRefusesWhatNoClientWouldTake(t *testing.T) {
	one, two := newAuthority(t, day), newAuthority(t, day)
	for name, spoil := range map[string]func(map[string][]byte){
		"nothing":                   func(d map[string][]byte) { clear(d) },
		"a key of another":          func(d map[string][]byte) { d[keyKey] = one.data(t, day)[keyKey] },
		"no authority":              func(d map[string][]byte) { delete(d, authorityKey) },
		"an authority that is none": func(d map[string][]byte) { d[authorityKey] = pem.EncodeToMemory(&pem.Block{Bytes: []byte("x")}) },
		"another authority":         func(d map[string][]byte) { d[authorityKey] = two.ca.CertPEM },
	} {
		data := one.data(t, day)
		spoil(data)
		if _, err := parsePair(data); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestBundle(t *testing.T) {
	one, two, brief := newAuthority(t, 100*day), newAuthority(t, 100*day), newAuthority(t, day)
	both := string(two.ca.CertPEM) + string(one.ca.CertPEM)
	for name, tc := range map[string]struct {
		text  []byte
		inUse *x509.Certificate
		want  string
	}{
		"nothing in use":         {one.ca.CertPEM, nil, string(one.ca.CertPEM)},
		"the same":               {one.ca.CertPEM, one.ca.Cert, string(one.ca.CertPEM)},
		"another, both":          {two.ca.CertPEM, one.ca.Cert, both},
		"both already":           {[]byte(both), one.ca.Cert, both},
		"the next one, of both":  {[]byte(both), two.ca.Cert, both},
		"an expired one goes":    {two.ca.CertPEM, brief.ca.Cert, string(two.ca.CertPEM)},
		"what cannot be read":    {[]byte("junk"), one.ca.Cert, "junk"},
		"what is not there":      {nil, one.ca.Cert, ""},
		"a third of two, no old": {append(brief.ca.CertPEM, two.ca.CertPEM...), one.ca.Cert, string(brief.ca.CertPEM) + string(one.ca.CertPEM)},
	} {
		if diff := cmp.Diff(tc.want, string(bundle(tc.text, tc.inUse, start.Add(2*day)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A bundle is what both sides trust: the server certificates of both authorities pass.
func TestBundleIsTrustedWithBothCertificates(t *testing.T) {
	one, two := newAuthority(t, 100*day), newAuthority(t, 100*day)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle(two.ca.CertPEM, one.ca.Cert, start))
	for _, a := range []*authority{one, two} {
		leaf := a.pair(t, 10*day).certificate.Leaf
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "webhook.home.svc", CurrentTime: start.Add(day)}); err != nil {
			t.Error(err)
		}
	}
	data := two.data(t, 9*day)
	valid, err := rotator.ValidCert(bundle(two.ca.CertPEM, one.ca.Cert, start), data[certKey], data[keyKey], "localhost", nil, start)
	if !valid || err != nil {
		t.Errorf("cert-controller would issue anew: %v", err)
	}
}

func TestCovers(t *testing.T) {
	cert := newAuthority(t, day).data(t, day)[certKey]
	for name, tc := range map[string]struct {
		text  []byte
		names []string
		want  bool
	}{
		"all":      {cert, []string{"webhook.home.svc", "localhost"}, true},
		"some":     {cert, []string{"localhost"}, true},
		"not all":  {cert, []string{"localhost", "elsewhere"}, false},
		"no names": {cert, nil, true},
		"no text":  {nil, nil, false},
	} {
		if got := covers(tc.text, tc.names); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

func TestHostAndPort(t *testing.T) {
	for address, want := range map[string]string{
		":9443": "", "127.0.0.1:9443": "127.0.0.1", "[::1]:9443": "::1", "localhost:9443": "localhost",
	} {
		if host, port, err := (Options{BindAddress: address}).hostAndPort(); err != nil || host != want || port != 9443 {
			t.Errorf("%s is %q, %d, %v", address, host, port, err)
		}
	}
	for _, address := range []string{"", "9443", ":0", ":https", ":65536", "0"} {
		if _, _, err := (Options{BindAddress: address}).hostAndPort(); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
}

func TestTrustAddsTheAuthorityInUseToEveryWebhook(t *testing.T) {
	one, two := newAuthority(t, 100*day), newAuthority(t, 100*day)
	hook := func() map[string]any {
		return map[string]any{"name": "a", "clientConfig": map[string]any{"caBundle": base64.StdEncoding.EncodeToString(two.ca.CertPEM)}}
	}
	configuration := &unstructured.Unstructured{Object: map[string]any{"webhooks": []any{hook(), hook()}}}
	if err := trust(configuration, one.ca.Cert, start); err != nil {
		t.Fatal(err)
	}
	want := base64.StdEncoding.EncodeToString(append(slices.Clone(two.ca.CertPEM), one.ca.CertPEM...))
	for _, w := range configuration.Object["webhooks"].([]any) {
		if got, _, _ := unstructured.NestedString(w.(map[string]any), "clientConfig", "caBundle"); got != want {
			t.Errorf("a webhook trusts %s, want both", got)
		}
	}
}

func TestTrustOfWhatIsNoConfiguration(t *testing.T) {
	one := newAuthority(t, day)
	for name, tc := range map[string]struct {
		object  map[string]any
		refused bool
	}{
		"no webhooks":      {map[string]any{}, false},
		"a text":           {map[string]any{"webhooks": []any{"x"}}, true},
		"no list":          {map[string]any{"webhooks": "x"}, true},
		"no base64":        {map[string]any{"webhooks": []any{map[string]any{"clientConfig": map[string]any{"caBundle": "%"}}}}, true},
		"nothing to trust": {map[string]any{"webhooks": []any{map[string]any{"name": "a"}}}, false},
	} {
		if err := trust(&unstructured.Unstructured{Object: tc.object}, one.ca.Cert, start); (err != nil) != tc.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
