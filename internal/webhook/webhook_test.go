package webhook

import (
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const day = 24 * time.Hour

var names = []string{"webhook.home.svc", "localhost"}

// issued is a new Secret, and what is read from it.
func issued(t *testing.T, used *pair) (map[string][]byte, *pair) {
	t.Helper()
	data, err := issue(names, used, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	p, err := parse(data, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return data, p
}

// Clients trust a bundle: certificates of both CAs pass, under all names, that of a third does not.
func TestTheCAInUseStaysTrusted(t *testing.T) {
	_, one := issued(t, nil)
	data, two := issued(t, one)
	_, three := issued(t, two)
	if string(data[caKey]) != string(two.ca)+string(one.ca) {
		t.Errorf("the Secret holds\n%s", data[caKey])
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data[caKey])
	for p, trusted := range map[*pair]bool{one: true, two: true, three: false} {
		for _, name := range names {
			if _, err := p.leaf().Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); (err == nil) != trusted {
				t.Errorf("%s, want trusted %t: %v", name, trusted, err)
			}
		}
	}
}

func TestJoin(t *testing.T) {
	_, one := issued(t, nil)
	_, two := issued(t, nil)
	both := string(two.ca) + string(one.ca)
	for name, tc := range map[string]struct {
		bundle string
		used   *pair
		after  time.Duration
		want   string
	}{
		"nothing in use":   {string(two.ca), nil, 0, string(two.ca)},
		"the same":         {string(two.ca), two, 0, string(two.ca)},
		"another":          {string(two.ca), one, 0, both},
		"both already":     {both, one, 0, both},
		"an expired one":   {string(two.ca), one, 366 * day, string(two.ca)},
		"one in no bundle": {"", one, 0, string(one.ca)},
	} {
		if diff := cmp.Diff(tc.want, string(join([]byte(tc.bundle), tc.used, time.Now().Add(tc.after)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseRefusesWhatNoClientWouldTake(t *testing.T) {
	other, _ := issued(t, nil)
	for name, spoil := range map[string]func(map[string][]byte){
		"nothing":          func(d map[string][]byte) { clear(d) },
		"a key of another": func(d map[string][]byte) { d[keyKey] = other[keyKey] },
		"no CA":            func(d map[string][]byte) { delete(d, caKey) },
		"a CA that is none": func(d map[string][]byte) {
			d[caKey] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
		},
		"another CA": func(d map[string][]byte) { d[caKey] = other[caKey] },
	} {
		data, _ := issued(t, nil)
		spoil(data)
		if _, err := parse(data, time.Now()); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for _, after := range []time.Duration{-2 * time.Hour, 366 * day} {
		if _, err := parse(other, time.Now().Add(after)); err == nil {
			t.Errorf("taken %s from now", after)
		}
	}
}

func TestDue(t *testing.T) {
	_, p := issued(t, nil)
	for name, tc := range map[string]struct {
		names []string
		after time.Duration
		want  string
	}{
		"new":         {names, 0, ""},
		"fewer names": {names[:1], 0, ""},
		"a new name":  {append([]string{"elsewhere"}, names...), 0, "it lacks the name elsewhere"},
		"long before": {names, 274 * day, ""},
		"in time":     {names, 276 * day, "it ends soon"},
	} {
		if got := p.due(tc.names, time.Now().Add(tc.after)); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestEnter(t *testing.T) {
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: make([]admissionregistrationv1.MutatingWebhook, 2)}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{Webhooks: make([]admissionregistrationv1.ValidatingWebhook, 2)}
	mutating.Webhooks[0].ClientConfig.CABundle = []byte("new")
	for _, c := range []client.Object{mutating, validating} {
		if !enter([]byte("new"), clientConfigs(c)) || enter([]byte("new"), clientConfigs(c)) {
			t.Errorf("%T: a change is one, and then none", c)
		}
	}
	if string(mutating.Webhooks[1].ClientConfig.CABundle)+string(validating.Webhooks[1].ClientConfig.CABundle) != "newnew" {
		t.Error("not every webhook has it")
	}
}

func TestAddress(t *testing.T) {
	for _, address := range []string{"", "9443", ":https"} {
		if err := SetupWithManager(nil, Options{BindAddress: address}, nil, nil); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
}
