package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/webhook"
)

// What one request may cost, whatever it holds and however large it is.
const (
	maxAddresses = 2
	// maxAllocated is how many bytes may be allocated on its way: the answer, what is kept of the
	// request while it is decoded, and its labels as a map.
	maxAllocated = 2 << 20
	// maxTime is how much CPU time a small request may take, maxTimePerPart what each 100 KiB of a
	// large one may add. It takes 0.3 ms at most, and 1 ms with the counters
	// that the fuzzer puts into the code; the bounds are to find what grows faster than a request.
	maxTime, maxTimePerPart = 50 * time.Millisecond, 20 * time.Millisecond
	// maxHandedOn is what a follower may send to the leader.
	maxHandedOn = 64 << 10
	// maxLine is the longest line that may be logged.
	maxLine = 4 << 10
	// maxRefusal is the longest refusal that may be remembered.
	maxRefusal = 1 << 10
)

// FuzzReview sends what might come as an AdmissionReview, before anything has validated it, through
// the HTTP handler to a webhook of Services with a real address index and real policies. Nothing
// panics; a request has two addresses in flight at most, or none when it is refused or insane; what
// it leaves behind, and the memory and the time that it costs, have bounds that do not depend on
// its content. What a follower hands on to the leader keeps to the same.
func FuzzReview(f *testing.F) {
	for _, row := range shapes(f) {
		f.Add(reviewOf(f, row.request()))
	}
	for _, seed := range hostile(f) {
		f.Add(seed)
	}
	lines := &longestLine{}
	log.SetLogger(zap.New(zap.WriteTo(lines)))
	a := newAttacked(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, handler := range []http.Handler{a.leader, a.follower} {
			a.attack(t, handler, body, lines)
		}
	})
}

// attacked is a webhook of Services that leads, one that does not, and the cluster of the first.
type attacked struct {
	*cluster
	leader, follower http.Handler
	handedOn         atomic.Int64 // the size of the last request that was handed on
	seen             atomic.Pointer[admission.Request]
}

// newAttacked is a cluster with an exclusive range of each family, with reservations, and one that
// is full.
func newAttacked(t testing.TB) *attacked {
	t.Helper()
	s := blue(func(s *v1alpha1.ServiceCIDRPolicySpec) {
		keeping("r", "10.0.1.2", "ns/a")(s)
		keeping("nobody", "fd00:1::2", "")(s)
	})
	s.namespaces = namespaceReader{"ns": {"team": "ns"}}
	s.cidrs = append(s.cidrs, rangeOf("full", "10.0.2.0/30"), rangeOf("red", "10.0.3.0/24", "fd00:3::/120"))
	s.policies = append(s.policies,
		policyOfRanges("full", func(s *v1alpha1.ServiceCIDRPolicySpec) {
			s.Exclusive, s.OnFull, s.Priority = true, v1alpha1.OnFullFail, 10
			s.ServiceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"full": "yes"}}
		}, "full"),
		policyOfRanges("red", func(s *v1alpha1.ServiceCIDRPolicySpec) {
			s.Exclusive = true
			s.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}
		}, "red"))
	for _, ip := range usableOf("10.0.2.0/30") {
		s.services = append(s.services, corev1Service("s"+strings.ReplaceAll(ip, ".", "-"), ip))
	}
	a := &attacked{cluster: newCluster(t, s)}
	a.leader = served(admission.HandlerFunc(func(ctx context.Context, r admission.Request) admission.Response {
		a.seen.Store(&r)
		return a.steerer.Handle(ctx, r)
	}))
	follower := a.replica(t, s)
	follower.Leader = leaderFunc(func(ctx context.Context, r *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, bool) {
		text, err := json.Marshal(admissionv1.AdmissionReview{Request: r})
		if err != nil {
			panic(err)
		}
		a.handedOn.Store(int64(len(text)))
		answer := &admissionv1.AdmissionReview{}
		recorded := httptest.NewRecorder()
		a.leader.ServeHTTP(recorded, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(text)))
		return answer.Response, json.Unmarshal(recorded.Body.Bytes(), answer) == nil && answer.Response != nil
	})
	a.follower = served(follower)
	return a
}

// served serves a webhook of Services as a manager does.
func served(handler admission.Handler) http.Handler {
	return webhook.Serve(webhook.Endpoint{
		Handler: handler, Resource: "services", Operations: []admissionv1.Operation{admissionv1.Create, admissionv1.Update}, Reads: ReadsOfService,
	}, webhook.NewRoom(webhook.Budget))
}

// attack sends one review, and looks at what it leaves.
func (a *attacked) attack(t *testing.T, handler http.Handler, body []byte, lines *longestLine) {
	t.Helper()
	lines.reset()
	a.handedOn.Store(0)
	before := allocated()
	recorded := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
	spent := threadTime(t, func() { handler.ServeHTTP(recorded, request) })
	if cost := allocated() - before; cost > maxAllocated {
		t.Errorf("%d bytes were allocated for %d", cost, len(body))
	}
	if most := maxTime + time.Duration(len(body)/(100<<10))*maxTimePerPart; spent > most {
		t.Errorf("%d bytes took %s of CPU time, want %s at most", len(body), spent, most)
	}
	inFlight, length := a.steerer.Index.InFlight(), lines.length()
	named, refusal := a.settle(t, recorded)
	a.releaseAll(t) // first, so that a smaller input is not blamed for what this one leaves
	switch {
	case inFlight > maxAddresses:
		t.Fatalf("%d addresses are in flight", inFlight)
	case refusal && inFlight > 0:
		t.Fatalf("it was refused, and %d addresses are in flight: %d %s", inFlight, recorded.Code, recorded.Body)
	case length > maxLine:
		t.Fatalf("a line of %d bytes was logged", length)
	case a.handedOn.Load() > maxHandedOn:
		t.Fatalf("%d bytes were handed on", a.handedOn.Load())
	}
	if why := insaneBody(body); why != "" && (inFlight > 0 || named > 0 || length > 0) {
		t.Fatalf("insane (%s), and %d addresses are in flight, %d are given, a line of %d bytes was logged", why, inFlight, named, length)
	}
}

// settle reads the answer, and ends the flight of what was given. It returns how many addresses
// that was, and whether the request was refused.
func (a *attacked) settle(t *testing.T, recorded *httptest.ResponseRecorder) (given int, refused bool) {
	t.Helper()
	var review admissionv1.AdmissionReview
	if recorded.Code != http.StatusOK || json.Unmarshal(recorded.Body.Bytes(), &review) != nil || review.Response == nil {
		return 0, true
	}
	var patches []struct {
		Path  string
		Value json.RawMessage
	}
	_ = json.Unmarshal(review.Response.Patch, &patches)
	for _, p := range patches {
		var all []string
		if p.Path == "/spec/clusterIPs" && json.Unmarshal(p.Value, &all) == nil {
			given = len(all)
			for _, text := range all {
				a.steerer.Index.Forget(netip.MustParseAddr(text), a.holder())
			}
		}
	}
	return given, !review.Response.Allowed
}

// holder is the Service that has the addresses which the last request took.
func (a *attacked) holder() addressindex.Holder {
	r, err := decode(*a.seen.Load())
	if err != nil {
		return addressindex.Holder{}
	}
	return addressindex.Holder{Service: r.service.key(), Review: r.review}
}

// releaseAll ends the flight of the addresses that a request named, after which nothing of it may
// be left but a bounded number of short refusals.
func (a *attacked) releaseAll(t *testing.T) {
	t.Helper()
	if a.steerer.Index.InFlight() > 0 {
		if r, err := decode(*a.seen.Load()); err == nil {
			for _, c := range append(slices.Clone(r.service.Spec.ClusterIPs), r.service.Spec.ClusterIP) {
				a.steerer.Index.Forget(c.address, a.holder())
			}
		}
	}
	if n := a.steerer.Index.InFlight(); n > 0 {
		t.Fatalf("%d addresses are in flight that the request neither named nor was given", n)
	}
	a.steerer.Refusals.mu.Lock()
	defer a.steerer.Refusals.mu.Unlock()
	for policy, all := range a.steerer.Refusals.pending {
		for _, r := range all {
			if len(all) > remembered || len(r.Service)+len(r.Message) > maxRefusal || len(policy) > 16 {
				t.Fatalf("policy %s remembers %d refusals such as %+v", policy, len(all), r)
			}
		}
	}
}

// decodeWhole reads a review as a whole, with keys as an API server writes them.
func decodeWhole(body []byte) (s, old *service, err error) {
	var review struct {
		Request struct {
			Operation admissionv1.Operation `json:"operation"`
			Namespace string                `json:"namespace"`
			Object    json.RawMessage       `json:"object"`
			OldObject json.RawMessage       `json:"oldObject"`
		} `json:"request"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil {
		return nil, nil, err
	}
	// Of null the handler sees nothing, and says that there is no Service.
	read := func(raw json.RawMessage) (*service, error) {
		if string(raw) == "null" {
			return nil, errors.New("there is no object")
		}
		o := &service{}
		return o, kjson.UnmarshalCaseSensitivePreserveInts(raw, o)
	}
	if s, err = read(review.Request.Object); err != nil {
		return nil, nil, err
	}
	s.Metadata.Namespace = review.Request.Namespace
	if review.Request.Operation != admissionv1.Create {
		old, err = read(review.Request.OldObject)
	}
	return s, old, err
}

// insaneBody is why the Service of a review is insane, empty also where there is none.
func insaneBody(body []byte) string {
	if s, old, err := decodeWhole(body); err == nil {
		return insane(s, old)
	}
	return ""
}

// threadTime is how much CPU time the thread spends on something. Unlike the time on a clock it
// does not grow when other processes, or other tests, want the machine: a bound of it holds
// anywhere.
func threadTime(t *testing.T, do func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spent := func() time.Duration {
		var use unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &use); err != nil {
			t.Fatal(err)
		}
		return time.Duration(use.Utime.Nano() + use.Stime.Nano())
	}
	before := spent()
	do()
	return spent() - before
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// longestLine is a log that keeps the length of its longest line.
type longestLine struct {
	mu      sync.Mutex
	longest int
}

// Write implements io.Writer.
func (l *longestLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest = max(l.longest, len(p))
	return len(p), nil
}

func (l *longestLine) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest = 0
}

func (l *longestLine) length() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.longest
}

// reviewOf is a request as an API server posts it.
func reviewOf(t testing.TB, r admission.Request) []byte {
	t.Helper()
	r.UID, r.UserInfo.Username = "705ab4f5-6393-11e8-b7cc-42010a800002", "tenant"
	r.Kind, r.Resource = metav1.GroupVersionKind{Version: "v1", Kind: "Service"}, metav1.GroupVersionResource{Version: "v1", Resource: "services"}
	text, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &r.AdmissionRequest,
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// hostile are reviews that tenants have sent, each with less of the same.
func hostile(t testing.TB) (all [][]byte) {
	t.Helper()
	send := func(change func(*corev1.Service, *admission.Request)) {
		s, r := corev1Service("a"), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: "ns"}}
		change(s, &r)
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		r.Object.Raw, r.Name = raw, s.Name
		all = append(all, reviewOf(t, r))
	}
	prefers := corev1.IPFamilyPolicyPreferDualStack
	// Many ports, and an address of another team.
	send(func(s *corev1.Service, _ *admission.Request) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.0.3.7", []string{"10.0.3.7"}
		for i := range 400 {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i + 1)}) //nolint:gosec // small
		}
	})
	send(func(s *corev1.Service, _ *admission.Request) { // a whole range
		for i := range 254 {
			s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, fmt.Sprintf("10.0.0.%d", i+1))
		}
		s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	})
	send(func(s *corev1.Service, _ *admission.Request) { // an address for each family
		s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &prefers, slices.Repeat([]corev1.IPFamily{corev1.IPv4Protocol}, 200)
	})
	send(func(s *corev1.Service, _ *admission.Request) { s.Name = strings.Repeat("n", 5<<10) })
	// A refusal with a name that steers terminals.
	send(func(s *corev1.Service, _ *admission.Request) {
		s.Name, s.Labels = strings.Repeat("\x1b[2J", 50), map[string]string{"full": "yes"}
	})
	send(func(s *corev1.Service, _ *admission.Request) { s.Labels = map[string]string{"full": "yes"} })
	send(func(s *corev1.Service, _ *admission.Request) {
		s.Annotations = map[string]string{
			v1alpha1.AnnotationFormerIPs: "203.0.113.7", v1alpha1.AnnotationAdditionalFrom: strings.Repeat("blue,", 600), v1alpha1.AnnotationProbe: "",
		}
	})
	send(func(s *corev1.Service, _ *admission.Request) {
		s.Labels = map[string]string{}
		for i := range 300 {
			s.Labels[fmt.Sprint("label-", i)] = strings.Repeat("v", 63)
		}
	})
	send(func(s *corev1.Service, r *admission.Request) { // whose is it?
		r.DryRun, s.Spec.ClusterIP, s.Spec.ClusterIPs = new(true), "10.0.2.1", []string{"10.0.2.1"}
	})
	send(func(s *corev1.Service, r *admission.Request) { // a second family, in an update
		r.Operation = admissionv1.Update
		r.OldObject.Raw, _ = json.Marshal(corev1Service("a", "10.0.0.9"))
		s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilyPolicy = "10.0.0.9", []string{"10.0.0.9"}, &prefers
	})
	send(func(s *corev1.Service, _ *admission.Request) {
		s.Status.Conditions = make([]metav1.Condition, 300)
		s.OwnerReferences = make([]metav1.OwnerReference, 300)
	})
	return append(all, []byte(`{"request":{"uid":"u","object":{"metadata":{"labels":`), []byte(`{"request":null}`), []byte(`[]`),
		[]byte(`{"request":{"uid":"u","resource":{"resource":"services"},"namespace":"ns","operation":"CREATE","userInfo":{"username":"tenant"},`+
			`"object":{"metadata":{"name":"shape"}},"object":null}}`)) // a member twice
}
