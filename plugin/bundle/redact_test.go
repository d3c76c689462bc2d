package bundle

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// given are names with pseudonyms that are not drawn.
func given() *names {
	n := newNames("operator-system")
	for kind, name := range map[string]string{ofNamespace: "shop", ofService: "shop-web", ofNode: "node-a.example.com", ofPolicy: "cafe", ofLabel: "example.com/team", ofUser: "jane@example.org"} {
		n.addHost(kind, name)
	}
	return n
}

func TestText(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":                          {"", ""},
		"no name":                          {"all is well", "all is well"},
		"a Service":                        {"Service shop/shop-web is there", "Service namespace-1/service-1 is there"},
		"the longest name":                 {"shop-web shop-we shop", "service-1 namespace-1-we namespace-1"},
		"a part of a host name":            {"shop-web.shop.svc.cluster.local", "service-1.namespace-1.svc.cluster.local"},
		"a part of the name of a pod":      {"shop-web-7d4c9-x2xkq", "service-1-7d4c9-x2xkq"},
		"a part of a word":                 {"workshop shops shopkeeper", "workshop shops shopkeeper"},
		"another spelling":                 {"Shop SHOP", "Shop SHOP"},
		"a node, with and without domain":  {"node-a.example.com node-a", "node-1 node-1"},
		"behind escapes of JSON":           {`a\nshop \tshop \u003cshop\u003e \"shop\"`, `a\nnamespace-1 \tnamespace-1 \u003cnamespace-1\u003e \"namespace-1\"`},
		"behind escapes of Go":             {`\x1bshop`, `\x1bnamespace-1`},
		"behind escapes of URLs":           {"fieldSelector=metadata.name%3Dshop&x=%2Fshop%2F", "fieldSelector=metadata.name%3Dnamespace-1&x=%2Fnamespace-1%2F"},
		"a name that begins like escapes":  {`\shop`, `\namespace-1`},
		"behind a colour":                  {"\x1b[31mshop\x1b[0m \\x1b[1;31mshop \ufffd[mshop", "\x1b[31mnamespace-1\x1b[0m \\x1b[1;31mnamespace-1 \ufffd[mnamespace-1"},
		"addresses":                        {"10.96.0.1:443 [fd00::cafe]:80 fd00:10:96::1/112 10.96.0.0/16.", "10.96.0.1:443 [fd00::cafe]:80 fd00:10:96::1/112 10.96.0.0/16."},
		"an address, and no colon of it":   {"fd00::1: cafe", "fd00::1: policy-1"},
		"a word of letters that are hex":   {"cafe cafe:x", "policy-1 policy-1:x"},
		"a Service that is gone":           {"shop/gone: gone", "namespace-1/service-2: service-2"},
		"a path of the API":                {"/api/v1/namespaces/shop/services/gone?x /namespaces/shop/events shop/10", "/api/v1/namespaces/namespace-1/services/service-2?x /namespaces/namespace-1/events namespace-1/10"},
		"a user":                           {`User "jane@example.org" cannot, nor can system:serviceaccount:a:b.`, `User "user-1" cannot, nor can system:serviceaccount:a:b.`},
		"a label":                          {"example.com/team=x", "label-1=x"},
		"at the end of what is no letter":  {"ü-shop", "ü-namespace-1"},
		"what every cluster has":           {"default/kubernetes kube-system/kube-dns operator-system", "default/kubernetes kube-system/kube-dns operator-system"},
		"bytes that are no text":           {"\xff\xfeshop\x80", "\xff\xfenamespace-1\x80"},
		"a pseudonym that is a name, once": {"shop", "namespace-1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := given().text(tc.text); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if got := (*names)(nil).text(tc.text); got != tc.text {
				t.Errorf("without redaction %q", got)
			}
		})
	}
}

func TestValue(t *testing.T) {
	var v any
	if err := json.Unmarshal([]byte(`{"shop": "shop", "n": 9223372036854775807, "list": ["shop", {"name": "shop-web"}, null, true],
		"labels": {"example.com/team": "shop", "kubernetes.io/metadata.name": "shop"}, "matchLabels": {"shop": "x"}}`), &v); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(given().value(v))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"labels":{"kubernetes.io/metadata.name":"namespace-1","label-1":"namespace-1"},"list":["namespace-1",{"name":"service-1"},null,true],` +
		`"matchLabels":{"namespace-1":"x"},"n":9223372036854775807,"shop":"namespace-1"}`
	if diff := cmp.Diff(want, strings.Replace(string(got), "9223372036854776000", "9223372036854775807", 1)); diff != "" {
		t.Error(diff)
	}
}

// Numbers tell no order, and are of the bundle alone.
func TestPseudonyms(t *testing.T) {
	var all []string
	for c := 'a'; c <= 'z'; c++ {
		all = append(all, "name-"+string(c))
	}
	orders := map[string]bool{}
	for range 5 {
		n, order := newNames(), ""
		n.add(ofService, all...)
		n.add(ofNamespace, all...) // have one
		for _, name := range all {
			order += n.of[name] + " "
		}
		if !regexp.MustCompile(`^(service-\d+ ){26}$`).MatchString(order) || n.count[ofNamespace] != 0 {
			t.Errorf("pseudonyms %s", order)
		}
		orders[order] = true
	}
	if len(orders) != 5 {
		t.Errorf("%d orders in 5 bundles", len(orders))
	}
	n := newNames()
	n.add(ofService, "", "10", "2026", "10.0.0.1", "fd00::1", "default", "kubernetes", "true")
	if len(n.of) != 0 {
		t.Errorf("%v are no names", n.of)
	}
	n.addSelectors(nil, &metav1.LabelSelector{
		MatchLabels:      map[string]string{"team": "blue", "kubernetes.io/metadata.name": "shop"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Values: []string{"web"}}},
	})
	for _, name := range []string{"team", "blue", "shop", "tier", "web"} {
		if n.of[name] == "" {
			t.Errorf("%s has no pseudonym", name)
		}
	}
	if n.of["kubernetes.io/metadata.name"] != "" {
		t.Error("a key of Kubernetes is no name")
	}
}

// FuzzText: no name is left at the border of a word, and without names nothing changes.
func FuzzText(f *testing.F) {
	for _, text := range []string{"shop/shop-web", `\nshop`, "%2Fshop", "10.96.0.1:80 fd00::cafe", "shop.shop-web.shop", "\\u003cshop", "::shop", "1.2.3.4shop"} {
		f.Add(text)
	}
	left := regexp.MustCompile(`(^|[^0-9A-Za-z:.])(shop|shop-web|node-a)($|[^0-9A-Za-z])`)
	f.Fuzz(func(t *testing.T, text string) {
		got := given().text(text)
		if left.MatchString(got) {
			t.Errorf("%q is left of %q", got, text)
		}
		if same := newNames().text(text); same != text {
			t.Errorf("%q without a name", same)
		}
	})
}

// An API server takes any text for the name of a user, and quotes it in refusals.
func TestUsers(t *testing.T) {
	for _, name := range []string{"alice", "https://issuer.example#alice", "alice+ops", "Alice Smith", "jörg", `CORP\alice`, "_alice", strings.Repeat("a b", 1000)} {
		n := newNames()
		n.addUser(name)
		for _, text := range []string{fmt.Sprintf("User %s cannot", name), fmt.Sprintf("User %q cannot", name), fmt.Sprintf("User %+q cannot", name)} {
			if got := n.text(text); strings.Trim(got, `"`) != got || !strings.Contains(got, "user-1") || len(got) > len(`User "user-1" cannot`) {
				t.Errorf("of %.100q remains %.100q", text, got)
			}
		}
		if got := n.text("malice and aliceland"); name == "alice" && got != "malice and aliceland" {
			t.Errorf("parts of words are replaced: %q", got)
		}
	}
}

// An Event says that it is about an object whose name no API server takes.
func TestLongNames(t *testing.T) {
	e := &corev1.Event{Type: long, Reason: long, Message: long, InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: long, Name: long}}
	e.Source.Component = long
	n := newNames()
	(&bundle{names: n}).learnRegarding(e.InvolvedObject)
	if n.longest > longestName {
		t.Errorf("a name has %d bytes: each word of all texts is compared with it", n.longest)
	}
	if text, err := json.Marshal(eventOf(e)); err != nil || len(text) > 8*mostOfText {
		t.Errorf("an event has %d bytes, error %v", len(text), err)
	}
}

// long is a name that is cut somewhere, and has to leave nothing of itself.
var long = strings.Repeat("a-", 150_000)

func TestShortened(t *testing.T) {
	n := given()
	for i := range mostOfText {
		text := strings.Repeat("x ", mostOfText)[:i] + " shop-web " + strings.Repeat("y", mostOfText)
		if got := n.text(shortened(text)); len(got) > mostOfText+len("service-1") || strings.Contains(got, "sho") {
			t.Fatalf("with a name at %d: %q", i, got)
		}
	}
	if got := shortened(long); got != left {
		t.Errorf("of one word remains %.50q", got)
	}
}

// A Service whose namespace is gone, too, is known to no list.
func TestLogsWithoutOwners(t *testing.T) {
	const first, last = `{"msg":"Starting"}` + "\n", `{"msg":"Serving"}` + "\n"
	got := withoutOwners(first + `{"msg":"A Service has an address","address":"10.96.0.7","service":"gone/secret"}` + "\n" +
		`{"msg":"A Service no longer has an address","address":"fd00::7","service":"gone/secret"}` + "\n" + last)
	if got != first+last {
		t.Errorf("left %q", got)
	}
}
