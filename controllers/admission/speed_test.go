package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/internal/webhook"
)

// BenchmarkDecision measures what one Service costs once its request is here. One operation is one
// answer; what it hands out is given back while the clock stands still. Each policy selects the
// namespace of one tenant and has a range of each family exclusively, and each request has another
// tenant; "all=true" are policies that select every namespace, and fall back to one another.
//
//	decided  the decision and the draw, for a request that has been read
//	handled  with reading the Service, and the labels of its namespace
//	bytes    from the AdmissionReview to the answer, as bytes
//	https    the same through an open TLS connection of HTTP/1.1, with the client's work
func BenchmarkDecision(b *testing.B) {
	for _, size := range []int{0, 100, 1000} {
		stand := newStand(b, size, false)
		for _, families := range []int{1, 2} {
			stand.measureAll(b, families, fmt.Sprintf("policies=%d/families=%d", size, families))
		}
	}
	newStand(b, 1000, true).measureAll(b, 1, "policies=1000/families=1/all=true")
}

// BenchmarkCompile measures what a change of a policy or range costs each replica, in background.
func BenchmarkCompile(b *testing.B) {
	for _, size := range []int{1, 100, 1000} {
		w := steering.Inputs{}
		for i := range size {
			w.Policies = append(w.Policies, tenantPolicy(i, false))
			w.ServiceCIDRs = append(w.ServiceCIDRs, addressindex.NewServiceCIDR(tenantRange(i)))
		}
		b.Run(fmt.Sprintf("policies=%d", size), func(b *testing.B) {
			for b.Loop() {
				steering.Compile(w)
			}
		})
	}
}

// stand is a webhook with informers that have listed all there is; nothing else happens.
type stand struct {
	steerer *ServiceSteerer
	tenants int

	mu     sync.Mutex
	handed map[netip.Addr]addressindex.Holder
}

// quiet lets requests have a logger as they have in a manager, which writes nothing here.
var quiet sync.Once

// newStand returns a webhook that knows of so many policies, each with a range.
func newStand(b *testing.B, policies int, all bool) *stand {
	b.Helper()
	quiet.Do(func() { log.SetLogger(zap.New(zap.WriteTo(io.Discard))) })
	namespaces := namespaceReader{}
	in := setting{cidrs: []*networkingv1.ServiceCIDR{rangeOf(v1alpha1.DefaultServiceCIDR, "10.96.0.0/16", "fd00:10:96::/112")}, namespaces: namespaces}
	for i := range max(policies, 1) {
		namespaces[tenant(i)] = map[string]string{"kubernetes.io/metadata.name": tenant(i), "tenant": tenant(i)}
	}
	for i := range policies {
		in.policies, in.cidrs = append(in.policies, tenantPolicy(i, all)), append(in.cidrs, tenantRange(i))
	}
	return &stand{tenants: max(policies, 1), steerer: newCluster(b, in).steerer, handed: map[netip.Addr]addressindex.Holder{}}
}

// measureAll runs the benchmarks of one case; each name begins with what is measured.
func (s *stand) measureAll(b *testing.B, families int, of string) {
	requests := s.requests(b, families)
	for _, request := range requests { // the first request of a tenant after a change costs more
		s.note(b, request, s.handle(b, request))
	}
	s.giveBack()
	for name, measure := range map[string]func(*testing.B, []admission.Request){
		"decided": s.measureDecided, "handled": s.measureHandled, "bytes": s.measureBytes, "https": s.measureHTTPS,
	} {
		b.Run("impl="+name+"/"+of, func(b *testing.B) { measure(b, requests) })
	}
}

// requests returns the creation of a Service by each tenant.
func (s *stand) requests(b *testing.B, families int) []admission.Request {
	b.Helper()
	requests := make([]admission.Request, s.tenants)
	for i := range requests {
		requests[i] = creation(b, tenant(i), families)
	}
	return requests
}

func (s *stand) measureDecided(b *testing.B, requests []admission.Request) {
	all := make([]inputs, len(requests))
	for i, request := range requests {
		r, err := decode(request)
		if err != nil {
			b.Fatal(err)
		}
		if all[i], err = s.steerer.gather(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		in := all[i%len(all)]
		response, result := s.steerer.fill(b.Context(), in, decide(in))
		if result != filled {
			b.Fatal(result)
		}
		s.note(b, requests[i%len(all)], response)
		s.giveSomeBack(b, i)
	}
	s.giveBack()
}

func (s *stand) measureHandled(b *testing.B, requests []admission.Request) {
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.note(b, requests[i%len(requests)], s.handle(b, requests[i%len(requests)]))
		s.giveSomeBack(b, i)
	}
	s.giveBack()
}

func (s *stand) measureBytes(b *testing.B, requests []admission.Request) {
	bodies := encode(b, requests)
	hook := served(s.noting(b))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		answer := httptest.NewRecorder()
		hook.ServeHTTP(answer, post(b, "https://localhost/", bodies[i%len(bodies)]))
		if answer.Code != http.StatusOK || !bytes.Contains(answer.Body.Bytes(), []byte("JSONPatch")) {
			b.Fatal(answer.Code, answer.Body)
		}
		s.giveSomeBack(b, i)
	}
	s.giveBack()
}

func (s *stand) measureHTTPS(b *testing.B, requests []admission.Request) {
	bodies := encode(b, requests)
	server := httptest.NewUnstartedServer(served(s.noting(b)))
	server.TLS = &tls.Config{NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		response, err := server.Client().Do(post(b, server.URL, bodies[i%len(bodies)]))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
			b.Fatal(response.Status, err)
		}
		_ = response.Body.Close()
		s.giveSomeBack(b, i)
	}
	s.giveBack()
}

// handle has the webhook answer a request.
func (s *stand) handle(b *testing.B, request admission.Request) admission.Response {
	ctx, cancel := context.WithTimeout(b.Context(), webhook.Budget)
	defer cancel()
	return s.steerer.Handle(ctx, request)
}

// noting is the webhook, of which the stand knows what it has handed out.
func (s *stand) noting(b *testing.B) admission.Handler {
	return admission.HandlerFunc(func(ctx context.Context, request admission.Request) admission.Response {
		response := s.steerer.Handle(ctx, request)
		s.note(b, request, response)
		return response
	})
}

// note remembers what was handed out.
func (s *stand) note(b *testing.B, request admission.Request, response admission.Response) {
	if len(response.Patches) == 0 {
		b.Errorf("nothing was filled in: %+v", response)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	to := addressindex.Holder{Service: types.NamespacedName{Namespace: request.Namespace, Name: request.Name}, Review: request.UID}
	for _, text := range response.Patches[0].Value.([]string) {
		s.handed[netip.MustParseAddr(text)] = to
	}
}

// giveSomeBack gives back what was handed out, now and then: long before a range of 256 addresses
// is full. Telling the listeners costs more than the decision.
func (s *stand) giveSomeBack(b *testing.B, i int) {
	const often = 100
	if i%often == often-1 {
		b.StopTimer()
		s.giveBack()
		b.StartTimer()
	}
}

// giveBack forgets what was handed out.
func (s *stand) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a, to := range s.handed {
		s.steerer.Index.Forget(a, to)
	}
	clear(s.handed)
}

func post(b *testing.B, url string, body []byte) *http.Request {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	return request
}

// encode writes requests as the API server sends them.
func encode(b *testing.B, requests []admission.Request) [][]byte {
	b.Helper()
	bodies := make([][]byte, len(requests))
	for i, request := range requests {
		review := admissionv1.AdmissionReview{Request: &request.AdmissionRequest}
		review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
		var err error
		if bodies[i], err = json.Marshal(review); err != nil {
			b.Fatal(err)
		}
	}
	return bodies
}

// creation is what the API server asks when a user creates a Service with kubectl.
func creation(b *testing.B, namespace string, families int) admission.Request {
	b.Helper()
	policy := corev1.IPFamilyPolicySingleStack
	if families == 2 {
		policy = corev1.IPFamilyPolicyRequireDualStack
	}
	service := corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "checkout", Namespace: namespace, Labels: map[string]string{"app": "checkout", "app.kubernetes.io/managed-by": "Helm"},
			Annotations:   map[string]string{"meta.helm.sh/release-name": "checkout", "meta.helm.sh/release-namespace": namespace},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl-create", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: fields()}},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, IPFamilyPolicy: &policy, Selector: map[string]string{"app": "checkout"},
			SessionAffinity: corev1.ServiceAffinityNone, Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	raw, err := json.Marshal(service)
	if err != nil {
		b.Fatal(err)
	}
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "705ab4f5-6393-11e8-b7cc-42010a800002", Operation: admissionv1.Create, Namespace: namespace, Name: service.Name,
		UserInfo: authenticationv1.UserInfo{Username: "kubernetes-admin", Groups: []string{"kubeadm:cluster-admins", "system:authenticated"}},
		Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Service"},
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "services"}, Object: kruntime.RawExtension{Raw: raw},
	}}
}

func fields() *metav1.FieldsV1 {
	return metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:internalTrafficPolicy":{},` +
		`"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:protocol":{}}},"f:selector":{},"f:type":{}}}`)
}

func tenant(i int) string { return "tenant-" + strconv.Itoa(i) }

// tenantPolicy gives a tenant, or all namespaces, the range of its number.
func tenantPolicy(i int, all bool) *v1alpha1.ServiceCIDRPolicy {
	p := &v1alpha1.ServiceCIDRPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: tenant(i), UID: types.UID(tenant(i))},
		Spec: v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{tenant(i)}, Exclusive: !all, OnFull: v1alpha1.OnFullFail,
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tenant": tenant(i)}},
		},
	}
	if all {
		p.Spec.NamespaceSelector, p.Spec.OnFull = nil, v1alpha1.OnFullFallback
	}
	return p
}

func tenantRange(i int) *networkingv1.ServiceCIDR {
	return rangeOf(tenant(i), fmt.Sprintf("10.%d.%d.0/24", 128+i/256, i%256), fmt.Sprintf("fd00:%x::/112", i+1))
}
