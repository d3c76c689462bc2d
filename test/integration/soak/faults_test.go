package soak_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/history"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

const (
	killInterval    = 15 * time.Second
	restartInterval = 55 * time.Second
	deleteInterval  = 300 * time.Millisecond
	// containerRestart is how long a kubelet needs to start a container anew.
	containerRestart = time.Second
	// outage is how long no replica runs, when all of them are killed.
	outage = 5 * time.Second
	// answering is how long an API server that is stopped may take for its last answers.
	answering = 3 * time.Second
	// catchingUp is how long a replica may take to watch an API server again that has come back.
	catchingUp = 5 * time.Second
	// cleaner is a user whom the guard of IPAddresses lets pass.
	cleaner = "system:serviceaccount:kube-system:generic-garbage-collector"
)

// faults are what goes wrong in an environment.
type faults struct {
	*environment
	// outages lets all replicas be killed now and then, and not only one at a time.
	outages bool

	hold atomic.Bool // the kubelet starts nothing
	// kills, starts and restarts count killed replicas, replaced ones and restarted API servers,
	// givenUp their starts that were in vain.
	kills, starts, restarts, givenUp, deleted atomic.Int64
	failedOpen                                float64 // creations and updates of Services, in past lives of the API servers
	// away are the times in which an API server was, and replicas had not caught up.
	away []history.Absence
}

// run goes on until ctx ends. Then everything runs again, as far as one can see from outside.
func (f *faults) run(ctx context.Context) {
	defer GinkgoRecover()
	var all sync.WaitGroup
	all.Go(func() { every(ctx, killInterval, f.kill) })
	all.Go(func() { every(ctx, restartInterval, f.restart) })
	all.Go(func() { every(ctx, deleteInterval, f.deleteAddress()) })
	kubelets, stop := context.WithCancel(context.WithoutCancel(ctx))
	var nodes sync.WaitGroup
	for _, replica := range f.Replicas() {
		nodes.Go(func() { f.kubelet(kubelets, replica) })
	}
	all.Wait()
	f.hold.Store(false)
	Eventually(f.Replicas).WithTimeout(10 * time.Second).Should(HaveLen(len(f.apis)))
	stop()
	nodes.Wait()
}

// every does something again and again until ctx ends.
func every(ctx context.Context, interval time.Duration, do func(context.Context, *rand.Rand)) {
	defer GinkgoRecover()
	rng := random(int(interval))
	for sleep(ctx, interval); ctx.Err() == nil; sleep(ctx, interval) {
		do(ctx, rng)
	}
}

// kill kills a replica, every third time all of them if there are outages.
func (f *faults) kill(ctx context.Context, rng *rand.Rand) {
	replicas := f.Replicas()
	if len(replicas) == 0 {
		return
	}
	all := f.outages && f.kills.Load()%3 == 2
	f.hold.Store(all)
	if !all {
		i := rng.IntN(len(replicas))
		replicas = replicas[i : i+1]
	}
	for _, replica := range replicas {
		Expect(replica.Kill()).To(Succeed())
	}
	f.kills.Add(1)
	if all {
		sleep(ctx, outage)
		f.hold.Store(false)
	}
}

// kubelet starts a replica anew whenever it has ended.
func (f *faults) kubelet(ctx context.Context, replica *framework.Manager) {
	defer GinkgoRecover()
	for ctx.Err() == nil {
		if !replica.Running() && !f.hold.Load() {
			sleep(ctx, containerRestart)
			Expect(replica.Start(ctx)).To(Succeed())
			f.starts.Add(1)
		}
		sleep(ctx, 50*time.Millisecond)
	}
}

// restart stops an API server as an update does, and starts it anew. Once it had time to answer
// requests, it is killed: under load its shutdown takes more than half a minute.
func (f *faults) restart(ctx context.Context, rng *rand.Rand) {
	api := f.apis[rng.IntN(len(f.apis))]
	f.failedOpen += cluster.FailedOpen(context.WithoutCancel(ctx), api.Access)
	from := time.Now()
	var stopping sync.WaitGroup
	stopping.Go(func() { _ = api.Stop() })
	sleep(ctx, answering)
	Expect(api.Kill()).To(Succeed())
	stopping.Wait()
	f.givenUp.Add(int64(cluster.StartAgain(context.WithoutCancel(ctx), api)))
	f.away = append(f.away, history.Absence{From: from, To: time.Now().Add(catchingUp)})
	f.restarts.Add(1)
}

// failedOpenInAll is that of all API servers, past lives included.
func (f *faults) failedOpenInAll(ctx context.Context) float64 {
	GinkgoHelper()
	sum := f.failedOpen
	for _, api := range f.apis {
		sum += cluster.FailedOpen(ctx, api.Access)
	}
	return sum
}

// deleteAddress returns what deletes a live Service's IPAddress as a user that the guard lets pass.
func (f *faults) deleteAddress() func(context.Context, *rand.Rand) {
	GinkgoHelper()
	var users []kubernetes.Interface
	for _, api := range f.apis {
		users = append(users, cluster.ClientAs(api.Access, cleaner))
	}
	return func(ctx context.Context, rng *rand.Rand) {
		user := users[rng.IntN(len(users))]
		services, err := user.CoreV1().Services([]string{tenant, stranger}[rng.IntN(2)]).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil || len(services.Items) == 0 {
			return // an API server is away
		}
		for _, address := range inventory.ClusterIPs(&services.Items[rng.IntN(len(services.Items))]) {
			if user.NetworkingV1().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{}) == nil {
				f.deleted.Add(1)
			}
		}
	}
}

// String is for the report.
func (f *faults) String() string {
	return fmt.Sprintf("replicas were killed %d times and started anew %d times, API servers restarted %d times, and %d starts in vain, %d IPAddresses deleted",
		f.kills.Load(), f.starts.Load(), f.restarts.Load(), f.givenUp.Load(), f.deleted.Load())
}
