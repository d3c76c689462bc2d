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
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// sideBySide is how many acts of a churn, ten a second, two API servers serve together. A new one
// looks at all objects at its start, then at each that its watch brings, and complains within
// seconds. Its next look at all comes after three minutes: too late for a test, not for this
// suite's ways.
const sideBySide = 600 // a minute

// settling is how long IPAddresses may take to agree with Services once an old API server has gone.
// 1.33 looks at everything after three minutes, and finds the IPAddress of a Service deleted by
// 1.32. If another Service has got the address, it seems to need a second look: after four minutes
// one was missing. Our operator needs a minute, and notices another version within 90 s.
const settling = 7 * time.Minute

// rolling is a cluster whose API servers are replaced one by one, while Services come and go.
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
	entrance := suite.Must(s.StartBalancer())
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

// installOperator installs two replicas, which use the entrance, as docs/guides/install.md says for
// the bitmap: without webhooks, and with the API servers' range.
func (r *rolling) installOperator(ctx context.Context) {
	GinkgoHelper()
	r.Balancer = suite.Must(r.StartBalancer())
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

// roll replaces the API server by another one, started before the old one goes. Services are
// written through both; during is called when both have served for a while.
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

// startBeside starts an API server beside the serving one, and again when it ends, like a kubelet.
// From 1.33 on its first full look writes an IPAddress for a Service without one, and gives up
// for good if our operator, another API server, or one whose write is not yet in the watch was
// faster. After a minute without that look it ends.
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

// expectHeld wants, between two acts, that every Service has what it was promised and had in an
// earlier snapshot, alone, and that each ClusterIP has its IPAddress.
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

// expectUntouched wants no repair of a Service that is unwritten since an earlier snapshot, or of
// its IPAddress. others counts the other repairs by reason, with byAPIServer before those of an API
// server; hasty counts hasty ones.
func (r *rolling) expectUntouched(ctx context.Context, before snapshot) (others map[string]int, hasty int) {
	GinkgoHelper()
	now := r.snapshot(ctx)
	owners, others := before.owners(), map[string]int{}
	same := func(name string) bool {
		return before.services[serviceKeys+name].Revision != 0 && before.services[serviceKeys+name].Revision == now.services[serviceKeys+name].Revision
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

// hasty reports whether an API server's repair was none, as happens without the operator, too: its
// watches show a request's two writes in any order. If an IPAddress seems lost, it writes one
// (ClusterIPNotAllocated), and deletes it five seconds later if an update was giving the address up
// (IPAddressWrongReference). It also deletes that of a deleted Service (IPAddressNotAllocated).
func (p snapshot) hasty(event *corev1.Event) bool {
	GinkgoHelper()
	if event.ReportingController != apiServer || event.Reason != "IPAddressWrongReference" {
		return event.ReportingController == apiServer && slices.Contains([]string{"ClusterIPNotAllocated", "IPAddressNotAllocated"}, event.Reason)
	}
	for _, stored := range p.events {
		earlier := storage.Decode[*corev1.Event](stored)
		if about := earlier.InvolvedObject; earlier.ReportingController == apiServer && earlier.Reason == "ClusterIPNotAllocated" &&
			strings.Contains(event.Message, "for Service "+about.Namespace+"/"+about.Name+" ") {
			return true
		}
	}
	return false
}

// expectBitmap wants the bitmaps to have all Services' addresses, and at most so many more.
func (s *environment) expectBitmap(ctx context.Context, leaks int) {
	GinkgoHelper()
	missing, leaked := s.snapshot(ctx).drift()
	Expect(missing).To(BeEmpty(), "a bitmap lacks addresses of Services")
	Expect(len(leaked)).To(BeNumerically("<=", leaks), "%v are not free, and no Service has them", leaked)
}

// drift are the Services' addresses that the bitmaps lack, and those that no Service holds.
func (p snapshot) drift() (missing, leaked []string) {
	GinkgoHelper()
	owners, bits := p.owners(), map[string]bool{}
	for i, key := range []string{rangeKeys + "serviceips", rangeKeys + "secondaryserviceips"} {
		for _, address := range bitsOf(p.bitmaps[key], netip.MustParsePrefix(strings.Split(twoFamilies, ",")[i])) {
			bits[address] = true
			if len(owners[address]) == 0 {
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

// bitsOf are the addresses in a stored bitmap, whose first bit is for the second address.
func bitsOf(stored storage.Value, prefix netip.Prefix) (addresses []string) {
	GinkgoHelper()
	bits, address := new(big.Int).SetBytes(storage.Decode[*corev1.RangeAllocation](stored).Data), prefix.Addr()
	for i := range bits.BitLen() {
		address = address.Next()
		if bits.Bit(i) == 1 {
			addresses = append(addresses, address.String())
		}
	}
	return addresses
}
