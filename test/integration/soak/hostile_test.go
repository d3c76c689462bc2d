package soak_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/audit"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/hostile"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/traffic"
)

// What a hostile hour may cost at most.
const (
	// slowest is the 99th percentile of friends' creations, unless it is higher without the operator.
	slowest = 300 * time.Millisecond
	// mostMemory is the resident memory of a replica, in bytes. The pod may have twice as much.
	mostMemory = 256 << 20
	// mostEvents are the operator's events in a minute, mostWrites its writes but of IPAddresses:
	// statuses, ServiceCIDRs, Leases, bindings.
	mostEvents, mostWrites = 600, 1200
	// mostWritesOfAddress is how often it writes an IPAddress for each that the API server creates:
	// the label of the band, and a cooling one that comes and goes.
	mostWritesOfAddress = 4

	attackers   = 3 // tenants
	connections = 4 // of each tenant
	friends     = 8
	friendsOwn  = 12 // Services of a friend
)

// Three tenants send at random all that test/integration/tenants tries one by one, as fast as the
// API server lets them. All of them go through priority and fairness: each user is a flow of its
// own, tenants and friends alike.
var _ = Describe("A hostile hour", Label("soak"), func() {
	It("costs friends nothing, and the operator no more than is bounded", func(ctx SpecContext) {
		// As in a pod, whatever hack/test.sh says for the sake of speed.
		GinkgoT().Setenv("GOGC", "100")
		log, flags := audit.New(operatorAudit)
		h := &hour{log: log, environment: &environment{Cluster: cluster.Start(ctx, cluster.Options{
			Options:   framework.Options{ServiceClusterIPRange: openRanges, Args: flags},
			Installed: true, Replicas: 2, Plain: true,
		})}}
		h.apis = []*framework.APIServer{h.API}
		h.prepare(ctx)

		alone := &company{hour: h}
		alone.run(ctx, *duration/20)
		beside := &company{hour: h}
		h.attack(ctx, &h.sent, func() { h.watch(ctx, func() { beside.run(ctx, *duration) }) })

		AddReportEntry("a hostile hour", ReportEntryVisibilityAlways, h.verdict(alone, beside))
		Expect(h.strangers).To(BeEmpty(), "Services of strangers in the exclusive ranges")
		Expect(beside.tally.Failures()).To(BeEmpty(), "%s", &beside.tally)
		Expect(beside.wrong).To(BeEmpty(), "friends whose addresses are not where they belong")
		Expect(h.memory).To(BeNumerically("<", mostMemory))
		for minute, n := range h.events {
			Expect(n).To(BeNumerically("<=", mostEvents), "events in %s", minute)
		}
		for minute, n := range h.writes {
			Expect(n).To(BeNumerically("<=", mostWrites), "writes in %s", minute)
		}
		Expect(h.addressWrites).To(BeNumerically("<=", mostWritesOfAddress*h.allocations))
		Expect(h.stops).To(HaveEach(Succeed()), "replicas that end while tenants go on")

		By("when the tenants are gone")
		h.StartReplicas(ctx)
		h.ExpectNothingLeaked(ctx)
		Eventually(h.queued).WithArguments(ctx).WithTimeout(time.Minute).WithPolling(time.Second).Should(BeZero(), "items in the queues of controllers")
		Eventually(h.ServiceCIDRs).WithArguments(ctx).Should(HaveLen(5), "no policy has grown for Services that were not there")
		Expect(h.intruders(ctx)).To(BeEmpty())
		h.ExpectConsistentWithin(ctx, settling)

		By("without the operator")
		for _, replica := range h.Replicas() {
			Expect(replica.Stop()).To(Succeed())
		}
		h.withdraw(ctx)
		without := &company{hour: h}
		h.attack(ctx, &hostile.Tally{}, func() { without.run(ctx, *duration/20) })
		AddReportEntry("a hostile hour without the operator", ReportEntryVisibilityAlways, without.tally.String())
		// On two processors the API server alone is busy for longer with what tenants send.
		Expect(beside.tally.Quantile(0.99)).To(BeNumerically("<", max(slowest, without.tally.Quantile(0.99))), "on a machine that has nothing else to do")
	})
})

// hour is the cluster of a hostile hour, and what was measured in it.
type hour struct {
	*environment
	log     audit.Log
	tenants []*hostile.Tenant
	target  hostile.Target
	sent    hostile.Tally

	strangers                  map[string]bool
	memory                     int64
	depth, inFlight            float64
	events, writes             map[string]int // by the minute
	addressWrites, allocations int
	failedOpen                 float64
	// Within these times 99 % of the calls of the webhook of creations were answered, and 99 % of
	// all requests had waited for a seat.
	webhooks, waited time.Duration
	stops            []error
}

// prepare gives friends and tenants their namespaces, rights and ranges.
func (h *hour) prepare(ctx context.Context) {
	GinkgoHelper()
	h.strangers = map[string]bool{}
	h.CreateNamespace(ctx, tenant, map[string]string{"soak": tenant})
	h.OfferRange(ctx, "exclusive", nil, exclusiveRanges[0].String(), exclusiveRanges[1].String())
	h.OfferRange(ctx, "open", nil, "10.98.0.0/24", "fd00:10:98::/120")
	h.OfferRange(ctx, hostile.Extra, nil, "10.100.0.0/24", "fd00:10:100::/120")
	h.OfferRange(ctx, "grows", map[string]string{"grows": "yes"}, "10.99.0.0/24", "fd00:10:99::/120")
	h.Program(ctx, "exclusive", fmt.Sprintf("{serviceCIDRs: [exclusive], namespaceSelector: {matchLabels: {soak: %s}}, exclusive: true, onFull: Fail, coolDown: 5s}", tenant))
	h.enforce(ctx)
	h.Program(ctx, "open", "{serviceCIDRs: [kubernetes, open], namespaceSelector: {matchLabels: {soak: friend}}, priority: -1}")
	h.Program(ctx, "grows", `{serviceCIDRSelector: {matchLabels: {grows: "yes"}}, namespaceSelector: {matchLabels: {soak: hostile}}, onFull: Fallback, coolDown: 1m,
		growth: {maxRanges: 8, from: [{cidr: 10.99.0.0/16, prefixLength: 24}, {cidr: "fd00:10:99::/112", prefixLength: 120}]}}`)
	h.Program(ctx, "extra", fmt.Sprintf("{serviceCIDRs: [%s], namespaceSelector: {matchLabels: {soak: hostile}}, priority: -1, additionalAddresses: true}", hostile.Extra))
	for i := range attackers {
		h.tenants = append(h.tenants, hostile.New(ctx, h.Cluster, fmt.Sprintf("hostile-%d", i), map[string]string{"soak": "hostile"}))
	}
	hostile.StartAnotherWebhook(ctx, h.Cluster, h.tenants...)
	h.target = hostile.Target{
		Closed: [2]netip.Prefix{exclusiveRanges[0], exclusiveRanges[1]}, Open: [2]netip.Prefix{netip.MustParsePrefix("10.98.0.0/24"), netip.MustParsePrefix("fd00:10:98::/120")},
	}
}

// attack lets tenants go on while something is done.
func (h *hour) attack(ctx context.Context, sent *hostile.Tally, do func()) {
	attacking, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i, t := range h.tenants {
		all.Go(func() {
			t.Attack(attacking, h.target, connections, uint64(GinkgoRandomSeed())<<8|uint64(i), sent) //nolint:gosec // a seed
		})
	}
	defer all.Wait()
	defer end()
	do()
}

// watch notes what something that is done costs, then stops the replicas.
func (h *hour) watch(ctx context.Context, do func()) {
	GinkgoHelper()
	before, calls, waits, start := cluster.FailedOpen(ctx, h.Access), h.calls(ctx), h.waits(ctx), time.Now()
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		defer GinkgoRecover()
		for watching.Err() == nil {
			h.look(ctx)
			sleep(watching, 3*time.Second)
		}
	})
	do()
	stop()
	watcher.Wait()
	h.failedOpen = cluster.FailedOpen(ctx, h.Access) - before
	h.webhooks, h.waited = h.calls(ctx).since(calls).quantile(0.99), h.waits(ctx).since(waits).quantile(0.99)
	for _, replica := range h.Replicas() {
		h.stops = append(h.stops, replica.Stop())
	}
	h.readLog(start)
}

// withdraw takes away what the API server asks of the operator, and the policy that it enforces.
func (h *hour) withdraw(ctx context.Context) {
	GinkgoHelper()
	api, all := h.Client().AdmissionregistrationV1(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=webhook"}
	Expect(api.MutatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, all)).To(Succeed())
	Expect(api.ValidatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, all)).To(Succeed())
	Expect(api.ValidatingAdmissionPolicyBindings().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
}

// look notes how things are at a moment.
func (h *hour) look(ctx context.Context) {
	GinkgoHelper()
	for _, intruder := range h.intruders(ctx) {
		h.strangers[intruder] = true
	}
	for _, replica := range h.Replicas() {
		bytes := suite.Must(replica.RSS())
		h.memory = max(h.memory, bytes)
	}
	h.depth = max(h.depth, h.queued(ctx))
	for _, n := range h.EachMetric(ctx, "admission_in_flight_addresses") {
		h.inFlight = max(h.inFlight, n)
	}
}

// intruders are the exclusive ranges' addresses that nodes serve for other namespaces' Services.
func (h *hour) intruders(ctx context.Context) (found []string) {
	GinkgoHelper()
	for _, s := range h.Services(ctx) {
		if s.Namespace != tenant {
			found = append(found, hostile.Within(&s, exclusiveRanges...)...)
		}
	}
	return found
}

// queued is how many items wait in the longest queue of a controller.
func (h *hour) queued(ctx context.Context) (most float64) {
	GinkgoHelper()
	for _, replica := range h.Replicas() {
		most = max(most, cluster.MetricOf(ctx, replica, "workqueue_depth"))
	}
	return most
}

// calls times the creations' webhook, waits how long tenants' and friends' requests wait for seats.
func (h *hour) calls(ctx context.Context) histogram {
	GinkgoHelper()
	return cluster.ScrapeAPIServer(ctx, h.Access).Buckets("apiserver_admission_webhook_admission_duration_seconds", "name", "service.clusterip-operator.io")
}

func (h *hour) waits(ctx context.Context) histogram {
	GinkgoHelper()
	return cluster.ScrapeAPIServer(ctx, h.Access).Buckets("apiserver_flowcontrol_request_wait_duration_seconds", "priority_level", "global-default")
}

// operatorAudit notes the operator's writes and the API server's IPAddresses, but no tenant's
// writes.
const operatorAudit = `
  {level: Metadata, users: ["system:serviceaccount:` + cluster.OperatorNamespace + ":" + cluster.OperatorAccount + `"], verbs: [create, update, patch, delete]},
  {level: Metadata, users: ["system:apiserver"], verbs: [create], resources: [{group: networking.k8s.io, resources: [ipaddresses]}]}`

// readLog counts what the operator wrote since a time, without reviews of tokens and of rights.
func (h *hour) readLog(since time.Time) {
	GinkgoHelper()
	h.events, h.writes = map[string]int{}, map[string]int{}
	type event struct {
		User           struct{ Username string }
		ObjectRef      struct{ Resource string }
		StageTimestamp metav1.MicroTime
	}
	for _, e := range audit.Read[event](h.log) {
		minute := e.StageTimestamp.Format("15:04")
		switch resource := e.ObjectRef.Resource; {
		case e.StageTimestamp.Time.Before(since):
		case e.User.Username == "system:apiserver":
			h.allocations++
		case resource == "ipaddresses":
			h.addressWrites++
		case resource == "events":
			h.events[minute]++
		case !strings.HasSuffix(resource, "reviews"):
			h.writes[minute]++
		}
	}
}

// verdict is all that was measured.
func (h *hour) verdict(alone, beside *company) string {
	most := func(of map[string]int) int { return slices.Max(append(slices.Collect(maps.Values(of)), 0)) }
	return strings.Join([]string{
		fmt.Sprintf("seed %d, %s: %d requests of %d tenants", GinkgoRandomSeed(), *duration, h.sent.Sent(), len(h.tenants)),
		"friends alone: " + alone.tally.String(),
		"friends beside them: " + beside.tally.String(),
		fmt.Sprintf("strangers in exclusive ranges: %d, friends outside of theirs: %d", len(h.strangers), len(beside.wrong)),
		fmt.Sprintf("a replica at most: %s MiB, %.0f addresses in flight, %.0f items in a queue", stats.MiB(h.memory), h.inFlight, h.depth),
		fmt.Sprintf("the operator in a minute at most: %d events, %d writes; %d writes of IPAddresses beside %d allocations", most(h.events), most(h.writes), h.addressWrites, h.allocations),
		fmt.Sprintf("calls of webhooks: 99 %% answered within %s, %.0f failed open; 99 %% of the requests of all users waited for less than %s; what the replicas said when they were ended: %v", h.webhooks, h.failedOpen, h.waited, h.stops),
		"sent: " + h.sent.String(),
	}, "\n")
}

// company are the friends: users with a tenant's rights who create, change and delete Services, and
// look at their addresses. The first three of eight have the exclusive ranges, the rest open ones.
type company struct {
	*hour
	tally traffic.Tally
	mu    sync.Mutex
	wrong []string
}

// friend is one of them.
type friend struct {
	*company
	services  kubernetes.Interface
	namespace string
	id, n     int
	rng       *rand.Rand
	own       []string
}

// run lets friends go on for a while, and delete what they have in the end.
func (c *company) run(ctx context.Context, d time.Duration) {
	GinkgoHelper()
	var known []*friend
	for i := range friends {
		known = append(known, c.befriend(ctx, i))
	}
	short, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var all sync.WaitGroup
	for _, f := range known {
		all.Go(func() {
			defer GinkgoRecover()
			for short.Err() == nil {
				f.act(ctx)
				sleep(short, time.Duration(f.rng.Int64N(int64(2*pause))))
			}
			for len(f.own) > 0 {
				f.remove(ctx)
			}
		})
	}
	all.Wait()
}

// befriend returns the i-th friend, with its rights.
func (c *company) befriend(ctx context.Context, i int) *friend {
	GinkgoHelper()
	f := &friend{company: c, id: i, namespace: tenant, rng: random(1000 + i)}
	user := fmt.Sprintf("friend-%d", i)
	label := tenant
	if i >= 3 {
		f.namespace, label = user, "friend"
	}
	c.Apply(ctx, fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s, labels: {soak: %[3]s}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %[2]s, namespace: %[1]s}
rules: [{apiGroups: [""], resources: [services], verbs: [create, get, update, patch, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[2]s, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[2]s}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[2]s}]
`, f.namespace, user, label))
	config := suite.Must(c.ConfigForUser(user))
	f.services = suite.Must(kubernetes.NewForConfig(config))
	Eventually(func() error {
		_, err := f.services.CoreV1().Services(f.namespace).Create(ctx, framework.NewService(f.namespace, "rights", framework.Headless()), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}).Should(Succeed())
	return f
}

func (f *friend) act(ctx context.Context) {
	switch {
	case len(f.own) == 0 || len(f.own) < friendsOwn && f.rng.IntN(2) == 0:
		f.create(ctx)
	case f.rng.IntN(3) == 0:
		f.change(ctx)
	default:
		f.remove(ctx)
	}
}

// create asks for a Service of one family or both, and looks where its addresses are.
func (f *friend) create(ctx context.Context) {
	f.n++
	name := fmt.Sprintf("%s-%d-%d", "web", f.id, f.n)
	s := []*corev1.Service{
		cluster.Dual(f.namespace, name), cluster.Single(f.namespace, name, corev1.IPv4Protocol), cluster.Single(f.namespace, name, corev1.IPv6Protocol),
	}[f.rng.IntN(3)]
	begin := time.Now()
	_, err := f.services.CoreV1().Services(f.namespace).Create(ctx, s, metav1.CreateOptions{})
	f.tally.Add(time.Since(begin), err)
	if err != nil {
		return
	}
	f.own = append(f.own, name)
	stored, err := f.services.CoreV1().Services(f.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		f.complain("%s/%s cannot be read: %v", f.namespace, name, err)
		return
	}
	for _, text := range stored.Spec.ClusterIPs {
		if address := netip.MustParseAddr(text); isExclusive(address) != (f.namespace == tenant) {
			f.complain("%s/%s has %s", f.namespace, name, address)
		}
	}
}

func (f *friend) change(ctx context.Context) {
	services, name := f.services.CoreV1().Services(f.namespace), f.own[f.rng.IntN(len(f.own))]
	s, err := services.Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		metav1.SetMetaDataLabel(&s.ObjectMeta, "changed", fmt.Sprint(f.n))
		_, err = services.Update(ctx, s, metav1.UpdateOptions{})
	}
	if err != nil {
		f.complain("%s/%s cannot be changed: %v", f.namespace, name, err)
	}
}

func (f *friend) remove(ctx context.Context) {
	name := f.own[0]
	f.own = f.own[1:]
	if err := f.services.CoreV1().Services(f.namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		f.complain("%s/%s cannot be deleted: %v", f.namespace, name, err)
	}
}

func (c *company) complain(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}
