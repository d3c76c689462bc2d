package plugin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/internal/kube"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// wire sees what a view asks of the API server for Services and IPAddresses, and may answer.
type wire struct {
	next http.RoundTripper
	// before is called before a request is sent, if it is not nil, and may answer in the place of the
	// API server.
	before func(*http.Request, url.Values) *http.Response

	mu    sync.Mutex
	asked []string // "GET services", "LIST services spec.clusterIP=10.96.0.1", "LIST services, page 2"
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	for _, resource := range []string{"services", "ipaddresses"} {
		_, rest, found := strings.Cut(r.URL.Path, "/"+resource)
		if !found || query.Has("watch") {
			continue
		}
		note := "LIST " + resource
		switch {
		case rest != "":
			note = "GET " + resource
		case query.Get("fieldSelector") != "":
			note += " by " + query.Get("fieldSelector")
		case query.Get("limit") == "":
			note += ", whole"
		case query.Get("limit") == "1":
			note += ", version"
		case query.Get("continue") != "":
			note += ", on"
		}
		w.mu.Lock()
		w.asked = append(w.asked, note)
		w.mu.Unlock()
		if w.before != nil {
			if answer := w.before(r, query); answer != nil {
				return answer, nil
			}
		}
	}
	return w.next.RoundTrip(r)
}

func (w *wire) notes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

// onPage is small, so that a few Services are several pages.
const onPage = 4

// reached is the suite's cluster, as a view reads it on a wire.
func reached(w *wire) view.Cluster {
	GinkgoHelper()
	config := c.AdminConfig()
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		w.next = next
		return w
	})
	scheme := suite.Must(kube.NewScheme(networkingv1.SchemeGroupVersion))
	return view.Cluster{Config: config, Live: suite.Must(client.NewWithWatch(config, client.Options{Scheme: scheme})), Policies: true, Page: onPage}
}

// served are the addresses of all Services, as the API server has them.
func served(ctx context.Context) (all []string) {
	GinkgoHelper()
	for _, s := range suite.Must(c.Client().CoreV1().Services("").List(ctx, metav1.ListOptions{})).Items {
		for _, ip := range s.Spec.ClusterIPs {
			all = append(all, s.Namespace+"/"+s.Name+" "+ip)
		}
	}
	return all
}

// seen are those that a view has.
func seen(ctx context.Context, v *view.View) (all []string) {
	GinkgoHelper()
	Expect(v.EachService(ctx, func(s *corev1.Service) error {
		for _, ip := range s.Spec.ClusterIPs {
			all = append(all, s.Namespace+"/"+s.Name+" "+ip)
		}
		return nil
	})).To(Succeed())
	return all
}

// expired is the answer of an API server that has forgotten what a page is of. It is made here: one
// that serves pages from its memory does not forget when etcd does, but minutes later.
func expired(r *http.Request) *http.Response {
	GinkgoHelper()
	status := apierrors.NewResourceExpired("The provided continue parameter is too old").Status()
	status.Kind, status.APIVersion = "Status", "v1"
	body := suite.Must(json.Marshal(status))
	return &http.Response{StatusCode: http.StatusGone, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r, ProtoMajor: 1, ProtoMinor: 1}
}

// A list of many Services is read by pages, of one moment. What changes meanwhile shows after it.
var _ = Describe("pages of a list", Ordered, func() {
	var services []*corev1.Service

	BeforeAll(func(ctx SpecContext) {
		for i := range 3 * onPage {
			services = append(services, c.Create(ctx, cluster.Dual(cluster.Namespace, fmt.Sprintf("page-%02d", i))))
		}
	})
	AfterAll(func(ctx SpecContext) { c.DeleteServices(ctx, services...) })

	It("show objects that come and go meanwhile", func(ctx SpecContext) {
		w := &wire{}
		var once sync.Once
		w.before = func(r *http.Request, query url.Values) *http.Response {
			if strings.HasSuffix(r.URL.Path, "/services") && query.Get("continue") != "" {
				once.Do(func() { // the first page has been read
					defer GinkgoRecover()
					first, last := services[0], services[len(services)-1]
					c.DeleteServices(ctx, first, last)
					services = services[1 : len(services)-1]
					services = append(services, c.Create(ctx, cluster.Dual(cluster.Namespace, "page-00a")))
				})
			}
			return nil
		}
		v := suite.Must(view.Open(ctx, reached(w)))
		Eventually(seen).WithArguments(ctx, v).Should(ConsistOf(served(ctx)))
		Expect(w.notes()).NotTo(ContainElement(ContainSubstring("whole")))
		Expect(w.notes()).To(ContainElements("LIST services, on", "LIST ipaddresses, on"))
		// The IPAddresses come by another watch than the Services.
		Eventually(v.Wrong).WithArguments(ctx).Should(BeEmpty())
		var wrong []string
		Expect(v.EachAddress(ctx, func(a view.Address) error {
			if len(a.Wrong) > 0 {
				wrong = append(wrong, a.Address.String())
			}
			return nil
		})).To(Succeed())
		Expect(wrong).To(BeEmpty())
	})

	It("begin anew where the API server has forgotten their moment", func(ctx SpecContext) {
		w := &wire{}
		var once sync.Once
		w.before = func(r *http.Request, query url.Values) (answer *http.Response) {
			if query.Get("continue") != "" && strings.HasSuffix(r.URL.Path, "/ipaddresses") {
				once.Do(func() { answer = expired(r) })
			}
			return answer
		}
		v := suite.Must(view.Open(ctx, reached(w)))
		Expect(seen(ctx, v)).To(ConsistOf(served(ctx)))
		first := slices.DeleteFunc(w.notes(), func(note string) bool { return note != "LIST ipaddresses" })
		Expect(first).To(HaveLen(2))
	})

	It("are given up, with the reason, when it is forgotten again and again", func(ctx SpecContext) {
		w := &wire{before: func(r *http.Request, query url.Values) *http.Response {
			if query.Get("continue") != "" && strings.HasSuffix(r.URL.Path, "/services") {
				return expired(r)
			}
			return nil
		}}
		_, err := view.Open(ctx, reached(w))
		Expect(err).To(MatchError(cluster.ContainAll("listing services: it took too long to read all pages: 3 times", "continue parameter is too old")))
	})

	It("are not read for one address, unless no Service is found that has it", func(ctx SpecContext) {
		v := suite.Must(view.Open(ctx, reached(&wire{})))
		tell := func(q view.Question) []string {
			GinkgoHelper()
			w := &wire{}
			narrow := suite.Must(view.OpenFor(ctx, reached(w), q))
			for _, a := range q.Addresses {
				want, got := suite.Must(v.Address(ctx, a)), suite.Must(narrow.Address(ctx, a))
				Expect(got.Services).To(Equal(want.Services))
				got.IPAddress, want.IPAddress = nil, nil
				Expect(got).To(Equal(want))
			}
			return w.notes()
		}
		has := services[1].Spec.ClusterIPs
		Expect(has).To(HaveLen(2))
		first, second := netip.MustParseAddr(has[0]), netip.MustParseAddr(has[1])
		Expect(tell(view.Question{Addresses: []netip.Addr{first}})).To(Equal([]string{"GET ipaddresses", "GET services", "LIST services by spec.clusterIP=" + has[0]}))
		Expect(tell(view.Question{Addresses: []netip.Addr{second}})).To(Equal([]string{"GET ipaddresses", "GET services", "LIST services by spec.clusterIP=" + has[1]}))
		for _, last := range []string{"10.96.0.126", "fd00:10:96::7f"} {
			free := netip.MustParseAddr(last)
			for slices.Contains(v.Known(), free) { // the API server draws any
				free = free.Prev()
			}
			Expect(tell(view.Question{Addresses: []netip.Addr{free}})).To(ContainElements("GET ipaddresses", "LIST services", "LIST services, on"))
		}
		both := tell(view.Question{Addresses: []netip.Addr{first, second}, Explains: true})
		Expect(both).To(ContainElements("LIST ipaddresses", "LIST ipaddresses, on"))
		Expect(both).NotTo(ContainElement("LIST services"))
	})
})
