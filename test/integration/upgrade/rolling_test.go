package upgrade_test

import (
	"context"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// sideBySide is how many acts of a churn, ten a second, two API servers serve before the old one goes. A new API server looks at everything
// when it starts, and then at each object when its watch brings it: what it has to say about the other's work it says within seconds. Its next look
// at everything comes after three minutes, which is more than a test can wait, and less than the ways of this suite take.
const sideBySide = 600 // a minute

// settling is how long the IPAddresses may take to agree with the Services when an old API server has gone. One whose Service was deleted through 1.32 is found when 1.33 looks at everything,
// after three minutes. If another Service has got the address meanwhile, it seems to take a second look, three minutes later, to write its IPAddress: one was missing still after four. Our operator is
// faster: it leaves an IPAddress alone for a minute, and notices after a minute and a half at the latest that another version is served.
const settling = 7 * time.Minute

// rolling is a cluster whose API servers are exchanged one after the other, while Services come and go.
type rolling struct {
	*environment
	work     *churn
	entrance *framework.Balancer // one address for all API servers, which our operator uses
	restarts atomic.Int64        // of our operator
	givenUp  int                 // starts of API servers, see startBeside
}

// startRolling begins to write.
func (s *environment) startRolling(ctx context.Context) *rolling {
	GinkgoHelper()
	entrance, err := s.StartBalancer()
	Expect(err).NotTo(HaveOccurred())
	r := &rolling{environment: s, work: s.startChurn(ctx), entrance: entrance}
	r.admit(s.API)
	return r
}

func (r *rolling) admit(api *framework.APIServer) {
	r.entrance.Add(framework.Backend{Address: backendOf(api), Ready: func(ctx context.Context) error {
		return api.Client().Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}})
}

func backendOf(api *framework.APIServer) string { return strings.TrimPrefix(api.URL(), "https://") }

// installOperator installs two replicas, which reach the API servers through the entrance, as docs/guides/install.md has it for the bitmap: without webhooks, and
// with the range of the API servers.
func (r *rolling) installOperator(ctx context.Context) {
	GinkgoHelper()
	var err error
	r.Balancer, err = r.StartBalancer()
	Expect(err).NotTo(HaveOccurred())
	r.Install(ctx, "")
	config := cluster.OperatorConfig(r.Access)
	config.Host = fmt.Sprintf("https://127.0.0.1:%d", r.entrance.Port())
	kubeconfig := filepath.Join(r.Dir(), "entrance.kubeconfig")
	Expect(framework.WriteKubeconfig(kubeconfig, config)).To(Succeed())
	for range 2 {
		r.keepRunning(r.LaunchReplica(ctx, "", kubeconfig, "--service-cluster-ip-range="+r.ranges))
	}
	r.WaitServing(ctx)
}

// keepRunning starts a replica again when it ends, as a kubelet does, until the calling node ends.
func (r *rolling) keepRunning(replica *framework.Manager) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-replica.Done():
			}
			if ctx.Err() != nil || replica.Start(ctx) != nil {
				return
			}
			r.restarts.Add(1)
		}
	}()
	DeferCleanup(func() { cancel(); <-ended })
}

// roll exchanges the API server for another one, which is there before the old one goes. Services are written through both meanwhile; during is called when both have served for
// a while.
func (r *rolling) roll(ctx context.Context, to framework.Options, during func(old, next *framework.APIServer)) {
	GinkgoHelper()
	old, to := r.API, to
	to.ServiceClusterIPRange = r.ranges
	next := r.startBeside(ctx, to)
	migrate.Publish(ctx, r.Cluster, r.etcd, old.URL(), next.URL())
	r.admit(next)
	r.work.through(old, next)
	r.work.waitFor(sideBySide)
	during(old, next)

	r.work.through(next)
	r.entrance.Remove(backendOf(old))
	r.entrance.Cut()
	Expect(old.Kill()).To(Succeed()) // asked politely, it would wait for every watch to end
	r.API, r.Access = next, next.Access
	migrate.Publish(ctx, r.Cluster, r.etcd, next.URL())
	r.work.waitFor(20)
}

// startBeside starts an API server beside the one that serves, and as a kubelet does, again when it has ended. That it ends is upstream's, from 1.33 to 1.36: when it looks at everything for the
// first time and finds a Service without IPAddress, it writes one, and if anybody was faster (our operator, another API server, or one that has written it before the watch shows it) it gives up, for good. After
// a minute without that look it ends.
func (r *rolling) startBeside(ctx context.Context, options framework.Options) *framework.APIServer {
	GinkgoHelper()
	for {
		limited, cancel := context.WithTimeout(ctx, 3*time.Minute)
		next, err := r.AddAPIServer(limited, options)
		cancel()
		if err == nil {
			return next
		}
		log := logOf.FindStringSubmatch(err.Error())
		Expect(log).To(HaveLen(2), err.Error())
		Expect(os.ReadFile(log[1])).To(MatchRegexp(`repair failed with not retryable error.*already exists`), err.Error())
		r.givenUp++
	}
}

// logOf finds the log of a program whose start has failed.
var logOf = regexp.MustCompile(`the end of (\S+):`)

// expectHeld wants, between two acts, that every Service has what it was promised and had in an earlier snapshot, nobody else has it, and each ClusterIP has its IPAddress.
func (r *rolling) expectHeld(ctx context.Context, before snapshot) {
	GinkgoHelper()
	r.work.still(func() {
		Eventually(r.Breaches).WithArguments(ctx).WithTimeout(settling).WithPolling(time.Second).Should(BeEmpty())
		now := r.snapshot(ctx)
		r.expectNoDuplicate(ctx)
		r.work.expectKept(now)
		is := now.clusterIPs()
		for name, clusterIPs := range before.clusterIPs() {
			if !r.work.touched[name] {
				Expect(is[name]).To(Equal(clusterIPs), name)
			}
		}
	})
}

// expectUntouched wants that no repair is reported of a Service, or of the IPAddress of one, that nobody has written since an earlier snapshot. It returns what
// is reported of others, by its reason, before which stands byAPIServer for that of an API server; and how often one was hasty.
func (r *rolling) expectUntouched(ctx context.Context, before snapshot) (others map[string]int, hasty int) {
	GinkgoHelper()
	now := r.snapshot(ctx)
	owners, others := before.owners(), map[string]int{}
	same := func(name string) bool {
		return before.services[serviceKeys+name].version != 0 && before.services[serviceKeys+name].version == now.services[serviceKeys+name].version
	}
	for _, event := range now.repairEvents(before) {
		about := event.InvolvedObject
		touched := !same(about.Namespace + "/" + about.Name)
		if about.Kind == "IPAddress" {
			touched = !slices.ContainsFunc(owners[about.Name], same)
		}
		Expect(touched).To(BeTrue(), describe(event))
		switch {
		case now.hasty(event):
			hasty++
		case event.ReportingController == apiServer:
			others[byAPIServer+event.Reason]++
		default:
			others[event.Reason]++
		}
	}
	return others, hasty
}

const (
	apiServer   = "ipallocator-repair-controller"
	byAPIServer = "API server: "
)

// hasty reports whether an API server tells of a repair that was none, as it does with and without the operator: it watches Services and IPAddresses, and hears of the two writes of a request
// in any order. If a Service seems to have lost its IPAddress (ClusterIPNotAllocated) it writes one, which is too many if an update was just giving the address up; that it takes away
// five seconds later (IPAddressWrongReference). And it takes away that of a Service that has just been deleted (IPAddressNotAllocated).
func (p snapshot) hasty(event *corev1.Event) bool {
	GinkgoHelper()
	if event.ReportingController != apiServer || event.Reason != "IPAddressWrongReference" {
		return event.ReportingController == apiServer && slices.Contains([]string{"ClusterIPNotAllocated", "IPAddressNotAllocated"}, event.Reason)
	}
	for _, stored := range p.events {
		earlier := decode[*corev1.Event](stored)
		if about := earlier.InvolvedObject; earlier.ReportingController == apiServer && earlier.Reason == "ClusterIPNotAllocated" &&
			strings.Contains(event.Message, "for Service "+about.Namespace+"/"+about.Name+" ") {
			return true
		}
	}
	return false
}

// expectBitmap wants that the bitmaps have the addresses of all Services, and at most so many others.
func (s *environment) expectBitmap(ctx context.Context, leaks int) {
	GinkgoHelper()
	missing, leaked := s.snapshot(ctx).drift()
	Expect(missing).To(BeEmpty(), "a bitmap lacks addresses of Services")
	Expect(len(leaked)).To(BeNumerically("<=", leaks), "%v are not free, and no Service has them", leaked)
}

// drift is how many addresses of Services the bitmaps lack, and how many they have that no Service holds.
func (p snapshot) drift() (missing, leaked []string) {
	GinkgoHelper()
	owners, bits := p.owners(), map[string]bool{}
	for i, key := range []string{rangeKeys + "serviceips", rangeKeys + "secondaryserviceips"} {
		for _, address := range bitsOf(p.bitmaps[key], netip.MustParsePrefix(strings.Split(twoFamilies, ",")[i])) {
			if bits[address] = true; len(owners[address]) == 0 {
				leaked = append(leaked, address)
			}
		}
	}
	for address := range owners {
		if !bits[address] {
			missing = append(missing, address)
		}
	}
	return missing, leaked
}

// bitsOf are the addresses that a stored bitmap has. Its first bit is that of the address behind the first.
func bitsOf(stored value, prefix netip.Prefix) (addresses []string) {
	GinkgoHelper()
	bits, address := new(big.Int).SetBytes(decode[*corev1.RangeAllocation](stored).Data), prefix.Addr()
	for i := range bits.BitLen() {
		if address = address.Next(); bits.Bit(i) == 1 {
			addresses = append(addresses, address.String())
		}
	}
	return addresses
}
