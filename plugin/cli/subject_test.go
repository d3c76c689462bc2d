package cli

import (
	"strings"
	"testing"
)

func TestParseSubject(t *testing.T) {
	for text, want := range map[string]struct {
		subject Subject
		err     string
	}{
		"svc/web": {Subject{KindService, "here", "web"}, ""}, "service/shop/web": {Subject{KindService, "shop", "web"}, ""}, "Services/web": {Subject{KindService, "here", "web"}, ""},
		"range/kubernetes": {Subject{KindRange, "", "kubernetes"}, ""}, "servicecidr.networking.k8s.io/kubernetes": {Subject{KindRange, "", "kubernetes"}, ""},
		"scp/team": {Subject{KindPolicy, "", "team"}, ""}, "ns/shop": {Subject{KindNamespace, "", "shop"}, ""}, "ipaddress.networking.k8s.io/fd00::1": {Subject{KindAddress, "", "fd00::1"}, ""},
		"svc/": {err: "names no service; write service/NAME with --namespace"}, "svc/a/b/c": {err: "names no service"}, "svc/Shop/web": {err: `no namespace can be called "Shop"`},
		"range/": {err: "names no servicecidr; write range/NAME"}, "range/a/b": {err: "names no servicecidr"}, "range/..": {err: "names no servicecidr"}, "policy/a%2f": {err: "names no servicecidrpolicy"},
		"nodeport/30080": {Subject{KindNodePort, "", "30080"}, ""}, "nodeport/0": {err: "names no node port"}, "nodeport/65536": {err: "names no node port"}, "nodeport/x": {err: "names no node port"}, "nodeport/": {err: "names no node port"},
		"ns/" + strings.Repeat("x", 254): {err: "names no namespace"},
	} {
		got, known, err := ParseSubject(text, "here")
		switch {
		case !known:
			t.Errorf("%s is not known", text)
		case want.err == "" && (err != nil || got != want.subject):
			t.Errorf("%s: %+v, error %v; want %+v", text, got, err, want.subject)
		case want.err != "" && (err == nil || !strings.Contains(err.Error(), want.err)):
			t.Errorf("%s: error %v, want %q", text, err, want.err)
		}
	}
	for _, text := range []string{"", "/", "web", "svc", "pod/web", "10.96.0.1", "10.96.0.0/24", "fd00::/64"} {
		if _, known, err := ParseSubject(text, "here"); known || err != nil {
			t.Errorf("%q is known, or an error: %v", text, err)
		}
	}
	if _, _, err := ParseSubject("svc/web", ""); err == nil {
		t.Error("a Service without any namespace is taken")
	}
}
