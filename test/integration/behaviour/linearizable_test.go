package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/audit"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/history"
)

// inFlight is how long the operator keeps an address for a Service that does not come, on a machine
// that may be busy.
const inFlight = 20 * time.Second

// contention are two API servers with two replicas of the operator, and clients that want the same
// few addresses.
type contention struct {
	*cluster.Cluster
	apis []*framework.APIServer
	logs []audit.Log
	// wanted are addresses that all clients ask for, kept one that is reserved for the Service kept.
	wanted, kept []string
	// answers counts those of API servers: a connection that is refused is none.
	answers atomic.Int64
}

func contend(ctx context.Context) *contention {
	GinkgoHelper()
	log, flags := history.NewLog()
	// An API server that also writes the bitmap (Kubernetes 1.33) sets a bit, and leaves it set if the
	// IPAddress cannot be written: then it refuses a free address.
	options := framework.Options{ServiceClusterIPRange: "10.96.0.0/24,fd00:10:96::/120", Args: flags, FeatureGates: framework.WithoutDualWrite}
	c := &contention{logs: []audit.Log{log}, kept: []string{"10.96.0.9", "fd00:10:96::9"}}
	c.Cluster = cluster.Start(ctx, cluster.Options{Options: options, Installed: true, Replicas: 2, Plain: true})
	log, options.Args = history.NewLog()
	c.logs = append(c.logs, log)
	c.apis = []*framework.APIServer{c.API, suite.APIServer(ctx, c.ControlPlane, options)}
	for i := 2; i < 8; i++ {
		c.wanted = append(c.wanted, fmt.Sprint("10.96.0.", i), fmt.Sprint("fd00:10:96::", i))
	}
	return c
}

// client does something at random, one request after another, until it is told to stop. No request
// is cancelled: what becomes of it would be open.
func (c *contention) client(ctx context.Context, stop <-chan struct{}, id int) {
	rng := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), uint64(id)))
	var own []*corev1.Service
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rng.IntN(20)) * time.Millisecond):
		}
		services := c.apis[rng.IntN(len(c.apis))].Client().CoreV1().Services(cluster.Namespace)
		i := 0
		if len(own) > 0 {
			i = rng.IntN(len(own))
		}
		switch roll := rng.IntN(6); {
		case len(own) < 2 || roll < 2:
			s, err := services.Create(ctx, c.service(rng, id, n), metav1.CreateOptions{})
			if c.answered(err) {
				own = append(own, s)
			}
		case roll < 4:
			s, err := services.Update(ctx, c.exchanged(rng, own[i]), metav1.UpdateOptions{})
			if c.answered(err) {
				own[i] = s
			}
		default: // also without an answer it is not touched again
			c.answered(services.Delete(ctx, own[i].Name, metav1.DeleteOptions{}))
			own = slices.Delete(own, i, i+1)
		}
	}
}

// answered counts an answer, and reports whether the request was granted.
func (c *contention) answered(err error) bool {
	if err == nil || errors.As(err, new(apierrors.APIStatus)) {
		c.answers.Add(1)
	}
	return err == nil
}

// service is a new one: with an address that all want, with one that is reserved, or with any.
func (c *contention) service(rng *rand.Rand, id, n int) *corev1.Service {
	name := fmt.Sprintf("client-%d-%d", id, n)
	switch rng.IntN(8) {
	case 0:
		return framework.NewService(cluster.Namespace, name, framework.RequireDualStack())
	case 1:
		return framework.NewService(cluster.Namespace, name, framework.WithClusterIPs(c.kept[rng.IntN(len(c.kept))]))
	case 2:
		return framework.NewService(cluster.Namespace, "kept", framework.RequireDualStack())
	default:
		return framework.NewService(cluster.Namespace, name, framework.WithClusterIPs(c.wanted[rng.IntN(len(c.wanted))]))
	}
}

// exchanged is a Service that gives its addresses up, or that comes back with another one.
func (c *contention) exchanged(rng *rand.Rand, was *corev1.Service) *corev1.Service {
	s := was.DeepCopy()
	if s.Spec.Type != corev1.ServiceTypeExternalName {
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
		s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = "", nil, nil, nil
		return s
	}
	s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeClusterIP, ""
	if s.Name != "kept" {
		framework.WithClusterIPs(c.wanted[rng.IntN(len(c.wanted))])(s)
	}
	return s
}

// Six clients ask two API servers for the same twelve addresses, while the leader is paused, a
// replica and an API server are killed, etcd stands still, and an admin has Services renumbered.
// What is judged is not the end but each answer: by the history of an address no Service got it
// while another had it, and no Service was refused it without a reason.
var _ = It("An address belongs to one Service at every moment, whatever fails", Label("all"), func(ctx SpecContext) {
	c := contend(ctx)
	c.Program(ctx, "kept", fmt.Sprintf(`{serviceCIDRs: [kubernetes], reservations: [{name: four, address: "%s", for: %s}, {name: six, address: "%s", for: %s}]}`,
		c.kept[0], "default/kept", c.kept[1], "default/kept"))
	var keeping []history.Operation
	for _, a := range c.kept {
		Eventually(c.Purpose).WithArguments(ctx, a).Should(Equal(cluster.Reservation))
		keeping = append(keeping, history.Kept(a, "default/kept"))
	}
	plan := c.planned(ctx)

	stop := make(chan struct{})
	var all sync.WaitGroup
	for id := range 6 {
		all.Go(func() { c.client(ctx, stop, id) })
	}
	all.Go(func() {
		defer GinkgoRecover()
		moved := suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Args: []string{"renumber", "run", "--from", plan, "--wait=false"}}))
		Expect(moved.ExitCode).To(BeNumerically("<", 2), moved.String())
	})
	c.fail(ctx)
	close(stop)
	all.Wait()

	// Once two IPAddresses of default/kept stood for seconds without it. The operator does that if it
	// is killed: what it restores for a Service that gives the address up it takes back at once. And
	// the API server's repair does (repairip.go), which reads caches. One that still has a Service,
	// and its IPAddress no more, or the reservation that stood there before, writes the IPAddress. As
	// long as the real one is there, that is answered "already exists" and tried again milliseconds
	// later: if the Service has gone meanwhile, its IPAddress is there once more. It goes after five
	// seconds if a Service of that name has other addresses, and else after the minute that both
	// repairs, the API server's and the operator's, give a Service to come: the address may be one on
	// its way.
	end := history.End(ctx, c.Access)
	requests := history.Requests(c.logs...)
	v := history.Judge(requests, end, history.Windows{InFlight: inFlight, Believed: time.Minute}, keeping, history.Excuses(requests))
	AddReportEntry("history", v.String())
	Expect(v.Faults).To(BeEmpty())
	Expect(v.Operations).To(And(HaveKeyWithValue(history.Take, BeNumerically(">", 30)), HaveKeyWithValue(history.Refuse, BeNumerically(">", 30))), "there was hardly any traffic")
})

// planned is the file of a plan to give Services other addresses.
func (c *contention) planned(ctx context.Context) string {
	GinkgoHelper()
	c.OfferRange(ctx, "new", nil, "10.200.0.0/24", "fd00:10:200::/120")
	c.CreateNamespace(ctx, "moving", nil)
	for i := range 4 {
		c.Create(ctx, framework.NewService("moving", fmt.Sprint("s", i), framework.RequireDualStack(), framework.WithClusterIPs(fmt.Sprint("10.96.0.", 12+i), fmt.Sprintf("fd00:10:96::%x", 12+i))))
		c.wanted = append(c.wanted, fmt.Sprint("10.96.0.", 12+i), fmt.Sprintf("fd00:10:96::%x", 12+i))
	}
	file := filepath.Join(GinkgoT().TempDir(), "plan.yaml")
	plan := suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Args: []string{"renumber", "plan", "-n", "moving", "--range=kubernetes", "--to=new", "--keep=externalIPs", "-o", file}}))
	Expect(plan.ExitCode).To(BeNumerically("<", 2), plan.String())
	return file
}

// fail brings about one fault after another, and the clients go on for a while in each.
func (c *contention) fail(ctx context.Context) {
	GinkgoHelper()
	leader, other := c.Leader(ctx)
	c.goOn()
	Expect(leader.Pause()).To(Succeed())
	c.goOn()
	Expect(leader.Resume()).To(Succeed())
	Expect(c.Etcd.Pause()).To(Succeed())
	Consistently(c.Etcd.Running).WithTimeout(500 * time.Millisecond).Should(BeTrue())
	Expect(c.Etcd.Resume()).To(Succeed())
	Expect(c.apis[1].Kill()).To(Succeed())
	c.goOn()
	cluster.StartAgain(ctx, c.apis[1])
	c.Balancer.Cut()
	Expect(other.Kill()).To(Succeed())
	c.goOn()
	Expect(other.Start(ctx)).To(Succeed())
	c.goOn()
}

// goOn waits until the clients have had some more answers.
func (c *contention) goOn() {
	GinkgoHelper()
	before := c.answers.Load()
	Eventually(c.answers.Load).Should(BeNumerically(">", before+60))
}
